-- envelope: version 1, priority 1, order 14 hex, then expiry or nothing | size | key hash
-- or - | tenant NUL; then the body, which no script reads.
-- tries: token|sent|used|crashes|first|slot|order|expiry|size|key|started|tenant NUL history:
-- what settling needs, so that no body is read for it. started: 0 no, 1 yes, 2 in doubt:
-- it may have arrived, and the destination is asked before it is sent again.
local NO_KEY = '-'

local function order_time(order) return tonumber(string.sub(order, 1, 7), 16) * 268435456 + tonumber(string.sub(order, 8), 16) end
local function hex14(n) return string.format('%07x%07x', math.floor(n / 268435456), n % 268435456) end

-- new_try is the record of a job that was never tried.
local function new_try(order, expiry, size, key, tenant)
  return {token = '', sent = 0, used = 0, crashes = 0, first = 0, slot = 0, started = 0, history = '',
    order = order, expiry = expiry, size = size, key = key, tenant = tenant}
end

local HEADER = '^2%d(' .. string.rep('%x', 14) .. ')(%d*)|(%d+)|([^|]+)|([^%z]*)%z'
local function parse_header(env)
  local order, expiry, size, key, tenant = string.match(env or '', HEADER)
  if not order then return nil end
  return new_try(order, tonumber(expiry) or 0, tonumber(size), key, tenant)
end

local TRY = '^([^|]*)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%x+)|(%d+)|(%d+)|([^|]+)|(%d)|([^%z]*)%z(.*)$'
local function parse_try(rec)
  local token, sent, used, crashes, first, slot, order, expiry, size, key, started, tenant, history =
    string.match(rec or '', TRY)
  if not token then return nil end
  return {token = token, sent = tonumber(sent), used = tonumber(used), crashes = tonumber(crashes), first = tonumber(first),
    slot = tonumber(slot), order = order, expiry = tonumber(expiry), size = tonumber(size), key = key,
    started = tonumber(started), tenant = tenant, history = history}
end

local function format_try(t)
  return table.concat({t.token, int(t.sent), int(t.used), int(t.crashes), int(t.first), int(t.slot), t.order, int(t.expiry),
    int(t.size), t.key, int(t.started), t.tenant}, '|') .. '\0' .. t.history
end

-- tries_of reads the records of ids; nil where there is none.
local function tries_of(ids)
  local out = {}
  if #ids == 0 then return out end
  for i, rec in ipairs(call('HMGET', K.tries, unpack(ids))) do out[i] = rec and parse_try(rec) or nil end
  return out
end
