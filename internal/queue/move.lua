-- move: waits that ended, jobs that expired.
local function promote(now, raw)
  local ids = due(K.waiting, now, MANY)
  if #ids == 0 then return end
  local tries, moved, ready, b = tries_of(ids), {}, {}, new_batch()
  for i, id in ipairs(ids) do
    if b.deadbytes > MOST_BYTES then break end -- the rest is due at once
    moved[i] = id
    local t = held_or_bury(b, id, tries[i], raw)
    if t then ready[#ready + 1] = {id = id, t = t} end
  end
  write('ZREM', K.waiting, moved)
  flush(b, raw)
  put_ready(ready)
end

-- end_expired ends a job whose time is over; one in doubt may have arrived all the same.
local function end_expired(b, id, t, where, raw)
  leave(b, id, t, where)
  tell(b, t.started == 2 and 'ended_unknown' or 'expired')
  if t.started == 2 then bury(b, id, 'unknown', 'expired', t.history, raw, call('HGET', K.jobs, id) or '')
  else finish(b, id, t, 'expired', 'expired', t.history, raw) end
end

-- expire ends up to MANY jobs whose time is over; leased ones are not in the index.
local function expire(raw)
  local ids = due(K.expires, raw, MANY)
  if #ids == 0 then return 0 end
  local tries, waits, b = tries_of(ids), call('ZMSCORE', K.waiting, unpack(ids)), new_batch()
  for i, id in ipairs(ids) do
    if tries[i] then end_expired(b, id, tries[i], waits[i] and 'waiting' or 'ready', raw) end
  end
  write('ZREM', K.expires, ids)
  flush(b, raw)
  return #b.gone
end
