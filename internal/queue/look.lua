-- look: when this lane must be looked at next, and its entry in the shard's due index.
local KEPT = 50000 -- µs by which a kept lane's entry is behind its look

-- next_look is the earliest time at which anything can happen; nil when nothing can.
local function next_look(list, now, raw, paused, why)
  local t, deadline = nil, first_score(K.leased)
  local function at(x) if x and (not t or x < t) then t = x end end
  if not paused then
    local from = sends_from(now)
    if from and size_of(K.tenants) > 0 and size_of(K.leased) < C.cap then
      if (why == 'more' or why == 'senders') and from <= now then at(now)
      else at(earliest(list, math.max(now + A.lead, from)) - A.horizon / 2) end
    end
    at(first_score(K.waiting))
  end
  if deadline then at(math.max(deadline, S.norecover)) end
  local expiry = first_score(K.expires)
  if expiry then at(expiry - raw + now) end
  return t and math.ceil(math.max(t, now))
end

-- plan_turn writes the entry for the worker that turned the lane.
local function plan_turn(t, keep)
  W.planned = t and int(t) or ''
  if not t then call('ZREM', K.due, A.lane)
  else call('ZADD', K.due, int(t + (keep and KEPT or 0)), A.lane) end
end

-- plan_earlier is for everybody else: it only ever moves the look forward, and
-- wakes the workers when that is soon. A kept lane's holder looks in time by itself.
local function plan_earlier(t, now)
  if not t then return end
  local entry = tonumber(call('ZSCORE', K.due, A.lane) or '')
  if entry and S.planned and S.planned <= t and entry >= S.planned then return end
  W.planned = int(t)
  call('ZADD', K.due, int(t), A.lane)
  if t < now + 500000 and (not entry or entry > t + 2000) then call('PUBLISH', A.wake, A.lane) end
end
