-- settle: results of attempts, eight arguments each from A.results on:
-- id, token, kind, delay µs, outcome, note, counts, health.
-- kind: delivered, dead, unknown: ends; delay is how long the destination is to rest. retry: waits for delay. doubt: as
-- retry, and the destination is asked before it is sent again. throttled: the
-- destination said "later", in delay. return: back to its place. release: back, and
-- no byte was written, so its slot is given back.
-- counts: 1 when the attempt uses up one of the job's attempts; of a throttled one and an
-- end the slot of the attempt before that drew "later" too, µs, 0: none.
-- health: ok when the destination answered, slow when that took long, bad when it failed, or nothing.
-- Answer of each: ok; again (recorded before); stale (somebody else holds it); gone.
local function settle_back(r, t, now, list, s)
  local released = r.kind == 'release'
  if not released then
    t.sent, t.used, t.history = t.sent + 1, t.used + (r.counts == '1' and 1 or 0), r.note
    if t.first == 0 then t.first = t.slot end
  elseif list then each_limit(list, 'refund', t.slot) end
  -- A doubt stays until a retry says that the job did not arrive.
  t.token, t.started = '', (r.kind == 'doubt' or t.started == 2 and r.kind ~= 'retry') and 2 or 0
  if r.kind == 'throttled' then t.order = behind(t) end
  s.tries[#s.tries + 1] = r.id ; s.tries[#s.tries + 1] = format_try(t)
  s.unlease[#s.unlease + 1] = r.id
  if t.expiry > 0 then s.expires[#s.expires + 1] = int(t.expiry) ; s.expires[#s.expires + 1] = r.id end
  if r.kind == 'throttled' then
    -- Jobs that were told "later" together do not come back together, and queue behind the others.
    s.waiting[#s.waiting + 1] = int(cool_down(r.delay, tonumber(r.counts), now) + t.slot % 1000000) ; s.waiting[#s.waiting + 1] = r.id
  elseif r.kind == 'retry' or r.kind == 'doubt' then s.waiting[#s.waiting + 1] = int(now + math.max(0, r.delay)) ; s.waiting[#s.waiting + 1] = r.id
  else s.ready[#s.ready + 1] = {id = r.id, t = t} ; if released then s.back[t.tenant] = (s.back[t.tenant] or 0) + 1 end end
end

local function settle_end(r, t, held, raw, b)
  local where = 'leased'
  if not held then where = call('ZSCORE', K.waiting, r.id) and 'waiting' or 'ready' end
  leave(b, r.id, t, where)
  if r.kind == 'delivered' then finish(b, r.id, t, 'delivered', r.outcome, r.note, raw)
  else
    local env = call('HGET', K.jobs, r.id)
    bury(b, r.id, r.kind, r.outcome, r.note, raw, env or '')
    if r.outcome == 'unreadable' then tell(b, 'unreadable') end
  end
end

-- occupy keeps how long jobs hold a sender, from slot to result, as a mean in which the last fifty count most.
local function occupy(n, sum)
  if n == 0 then return end
  local old = S.occupied
  local part = old and math.min(1, n / 50) or 1
  W.occupied = int(math.max(0, (old or 0) + (sum / n - (old or 0)) * part))
end

local function settle(now, raw, list)
  local out, ids, n = {}, {}, A.nres
  if n == 0 then return out end
  for i = 1, n do ids[i] = ARGV[A.results + (i - 1) * 8] end
  local tries, leases, b, seen = tries_of(ids), call('ZMSCORE', K.leased, unpack(ids)), new_batch(), {}
  local held_n, held_sum = 0, 0
  local s = {tries = {}, unlease = {}, expires = {}, waiting = {}, ready = {}, back = {}}
  for i, id in ipairs(ids) do
    local p = A.results + (i - 1) * 8
    local r = {id = id, token = ARGV[p + 1], kind = ARGV[p + 2], delay = tonumber(ARGV[p + 3]), outcome = ARGV[p + 4],
      note = ARGV[p + 5], counts = ARGV[p + 6], health = ARGV[p + 7]}
    local t = tries[i]
    if seen[id] then out[i] = 'again'
    elseif not t then
      out[i] = settle_missing(r, b, now, raw)
      seen[id] = out[i] == 'ok'
    elseif t.token ~= r.token then out[i] = 'stale'
    else
      local held = leases[i]
      if not held and r.kind ~= 'delivered' then out[i] = 'stale'
      else
        seen[id], out[i] = true, 'ok'
        learn(r.health, id, t.slot, r.kind, r.outcome, now)
        if held and r.kind ~= 'release' then held_n, held_sum = held_n + 1, held_sum + now - t.slot end
        local final = r.kind == 'delivered' or r.kind == 'dead' or r.kind == 'unknown'
        if final and r.delay > 0 then cool_down(r.delay, tonumber(r.counts), now) end
        if final then settle_end(r, t, held, raw, b) else settle_back(r, t, now, list, s) end
      end
    end
  end
  occupy(held_n, held_sum)
  write('ZREM', K.leased, s.unlease)
  flush(b, raw)
  write('HSET', K.tries, s.tries)
  write('ZADD', K.waiting, s.waiting)
  write('ZADD', K.expires, s.expires)
  put_ready(s.ready)
  give_back(s.back)
  return out
end
