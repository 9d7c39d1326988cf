-- trim: what outlived its keeping or its bound.
local FEW = 20 -- entries of each kind that a call which ends jobs removes at least, if there are

local function drop_done(ids)
  if #ids == 0 then return end
  local bytes = 0
  for _, v in ipairs(call('HMGET', K.done, unpack(ids))) do if v then bytes = bytes + #v + 180 end end
  write('HDEL', K.done, ids)
  write('ZREM', K.doneends, ids)
  bump('hist', -bytes)
end

local function drop_keys(keys)
  if #keys == 0 then return end
  write('HDEL', K.idem, keys)
  write('ZREM', K.idemends, keys)
  bump('hist', -230 * #keys)
end

local function drop_dead(ids, raw)
  if #ids == 0 then return end
  local bytes, b = 0, new_batch()
  for i, v in ipairs(call('HMGET', K.deadjobs, unpack(ids))) do
    if v then
      bytes = bytes + #v
      if string.sub(v, 1, 8) == 'unknown|' then b.unknown = b.unknown + 1 end
      local state, length, note = string.match(v, '^(%a+)|%d+|[^|]*|(%d+)|()')
      local t = note and parse_header(string.sub(v, note + tonumber(length)))
      if t and t.key ~= NO_KEY then b.keys[#b.keys + 1] = {key = t.key, state = state} end
    end
  end
  write('HDEL', K.deadjobs, ids)
  write('ZREM', K.dead, ids)
  end_keys(b, raw)
  bump('deadbytes', -bytes) ; bump('hist', b.hist)
  if b.unknown > 0 then bump('unknown', -b.unknown) end
end

-- oldest_dead lists dead jobs, the oldest first, that were kept long enough or
-- are beyond the bounds of count and bytes, and says whether there are more of them.
local function oldest_dead(raw, few)
  local ids, read = {}, 0
  local dead = call('ZCARD', K.dead)
  if dead == 0 then return ids, false end
  local over, bytes = dead - C.dead_max, S.deadbytes - C.max_bytes
  local list = call('ZRANGE', K.dead, 0, few - 1, 'WITHSCORES')
  for i = 1, #list, 2 do
    if over <= 0 and bytes <= 0 and tonumber(list[i + 1]) > raw - C.keep_dead then return ids, false end
    local size = call('HSTRLEN', K.deadjobs, list[i])
    -- Twice, for settling and recovering may add as much each.
    if read > 0 and read + size > 2 * MOST_BYTES then return ids, true end
    ids[#ids + 1], read = list[i], read + size
    over, bytes = over - 1, bytes - size
  end
  return ids, #ids == few
end

-- trim removes up to few entries of each kind, and says whether there may be more to remove.
local function trim(raw, few)
  local done = call('ZRANGEBYSCORE', K.doneends, '-inf', int(raw), 'LIMIT', 0, few)
  local keys = call('ZRANGEBYSCORE', K.idemends, '-inf', int(raw), 'LIMIT', 0, few)
  drop_done(done) ; drop_keys(keys)
  local more = #done == few or #keys == few
  if S.hist > C.max_history then
    done, keys = call('ZRANGE', K.doneends, 0, few - 1), call('ZRANGE', K.idemends, 0, few - 1)
    drop_done(done) ; drop_keys(keys)
    more = more or S.hist > C.max_history and #done + #keys > 0
    count('trimmed_results', #done) ; count('trimmed_keys', #keys)
  end
  local dead, others = oldest_dead(raw, few)
  drop_dead(dead, raw)
  count('trimmed_dead', #dead)
  return more or others
end

-- trim_after trims what the call has made grow, by more than that, or it would grow for ever.
-- A call that ended nothing leaves it to the others and to the sweep.
local function trim_after(raw) if ended > 0 then trim(raw, FEW + 2 * ended) end end
