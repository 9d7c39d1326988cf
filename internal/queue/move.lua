-- move: leases that ran out, waits that ended, jobs that expired, what outlived its keeping.
local MAX_CRASHES = 3
local MANY = 200

-- back_to_ready ends the lease of jobs, {id, t} each, at their old place.
local function back_to_ready(jobs)
  local ids, tries, expires = {}, {}, {}
  for _, j in ipairs(jobs) do
    ids[#ids + 1] = j.id
    tries[#tries + 1] = j.id ; tries[#tries + 1] = format_try(j.t)
    if j.t.expiry > 0 then expires[#expires + 1] = int(j.t.expiry) ; expires[#expires + 1] = j.id end
  end
  write('ZREM', K.leased, ids)
  write('HSET', K.tries, tries)
  write('ZADD', K.expires, expires)
  put_ready(jobs)
end

-- recover brings back leases whose deadline passed. The token stays: a late
-- 'delivered' is believed while nobody else holds the job.
local function recover(now, raw)
  if now < S.norecover then return end
  local ids = call('ZRANGEBYSCORE', K.leased, '-inf', int(now), 'LIMIT', 0, MANY)
  if #ids == 0 then return end
  local tries, back, b, lost = tries_of(ids), {}, new_batch(), {}
  for i, id in ipairs(ids) do
    local t = tries[i] or parse_header(call('HGET', K.jobs, id))
    if not t then
      lost[#lost + 1] = id
      bury_unreadable(b, id, call('HGET', K.jobs, id), '', raw)
    else
      t.sent, t.crashes = t.sent + 1, t.crashes + ((t.crashes == 0 or t.started == 1) and 1 or 0)
      if t.first == 0 then t.first = t.slot end
      t.started = 0
      if t.crashes >= MAX_CRASHES then
        leave(b, id, t, 'leased')
        bury(b, id, 'dead', 'worker_crashed', t.history, raw, call('HGET', K.jobs, id) or '')
      else back[#back + 1] = {id = id, t = t} end
    end
  end
  write('ZREM', K.leased, lost)
  count('crashes', #ids - #lost)
  flush(b, raw)
  back_to_ready(back)
end

-- take_back releases, uncounted, what a call granted whose reply was lost:
-- A.lost is "call,first deadline,last deadline;" …
local function take_back()
  local back = {}
  for number, from, to in string.gmatch(A.lost, '(%d+),(%d+),(%d+);') do
    local prefix = A.worker .. ':' .. number .. ':'
    local ids = call('ZRANGEBYSCORE', K.leased, from, to, 'LIMIT', 0, MANY)
    local tries = tries_of(ids)
    for i, id in ipairs(ids) do
      local t = tries[i]
      if t and string.sub(t.token, 1, #prefix) == prefix then t.token = '' ; back[#back + 1] = {id = id, t = t} end
    end
  end
  if #back > 0 then back_to_ready(back) end
end

local function promote(now, raw)
  local ids = call('ZRANGEBYSCORE', K.waiting, '-inf', int(now), 'LIMIT', 0, MANY)
  if #ids == 0 then return end
  local tries, ready, b = tries_of(ids), {}, new_batch()
  for i, id in ipairs(ids) do
    local t = tries[i] or parse_header(call('HGET', K.jobs, id))
    if t then ready[#ready + 1] = {id = id, t = t} else bury_unreadable(b, id, call('HGET', K.jobs, id), '', raw) end
  end
  write('ZREM', K.waiting, ids)
  flush(b, raw)
  put_ready(ready)
end

-- expire ends up to MANY jobs whose time is over; leased ones are not in the index.
local function expire(raw)
  local ids = call('ZRANGEBYSCORE', K.expires, '-inf', int(raw), 'LIMIT', 0, MANY)
  if #ids == 0 then return 0 end
  local tries, b = tries_of(ids), new_batch()
  for i, id in ipairs(ids) do
    local t = tries[i]
    if t then
      leave(b, id, t, call('ZSCORE', K.waiting, id) and 'waiting' or 'ready')
      finish(b, id, t, 'expired', 'expired', t.history, raw)
    end
  end
  write('ZREM', K.expires, ids)
  flush(b, raw)
  count('expired', #b.gone)
  return #b.gone
end
