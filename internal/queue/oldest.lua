-- oldest: how long the oldest job has been here.
local SAMPLE = 16 -- tenants, leases and waits, of each end, that are looked at
local READABLE = 65536 -- bytes; the priority of a larger job is not read

local function older(best, order, id)
  if order and (not best.order or order < best.order) then best.order, best.id = order, id end
end

-- older_of looks at jobs that are not ready; one that was never sent waits for its own time.
local function older_of(best, ids)
  local tries = tries_of(ids)
  for i, id in ipairs(ids) do
    local t = tries[i]
    if t and (t.sent > 0 or t.slot > 0) then older(best, t.order, id) end
  end
end

-- pushed_at is when the oldest job was pushed that does not wait for its own time,
-- logical µs: its place without its priority. It is exact for few tenants, and for
-- few jobs beside the ready ones.
local function pushed_at()
  local best = {}
  for _, tenant in ipairs(call('ZRANGE', K.tenants, 0, SAMPLE - 1)) do
    local m = first_members(tenant, 0, 1)[1]
    if m then older(best, string.sub(m, -36, -23), string.sub(m, -22)) end
  end
  older_of(best, call('ZRANGE', K.leased, 0, SAMPLE - 1))
  older_of(best, call('ZRANGE', K.waiting, 0, SAMPLE - 1))
  if call('ZCARD', K.waiting) > SAMPLE then older_of(best, call('ZRANGE', K.waiting, -SAMPLE, -1)) end
  if not best.id then return nil end
  local env = call('HSTRLEN', K.jobs, best.id) <= READABLE and call('HGET', K.jobs, best.id)
  local prio = tonumber(env and string.sub(env, 2, 2) or '') or 0
  return order_time(best.order) - prio * (tonumber(C.aging) or 0)
end
