-- mend, the main part.
local MISSING = 2000000 -- µs after its planned look by which a lane must have been looked at

-- orphans puts tries that hold a token but have no lease back to ready: an entry was lost.
local function orphans(now)
  local cursor, back = call('HGET', K.state, 'mend') or '0', {}
  local page = call('HSCAN', K.tries, cursor, 'COUNT', 200)
  W.mend = page[1]
  for i = 1, #page[2], 2 do
    local id, t = page[2][i], parse_try(page[2][i + 1])
    if t and call('HEXISTS', K.jobs, id) == 1 and not call('ZSCORE', K.leased, id) and not call('ZSCORE', K.waiting, id)
      and not call('ZSCORE', K.ready, member(t, id)) then back[#back + 1] = {id = id, t = t} end
  end
  put_ready(back)
  return #back
end

local function tombstone(raw)
  local over = tonumber(string.match(call('HGET', K.lanes, A.lane) or '', '^%d+|0|(%d+)$') or '')
  if not over or over > raw then return 0 end
  call('HDEL', K.lanes, A.lane)
  for _, name in ipairs({'state', 'done', 'doneends'}) do call('UNLINK', K[name]) end
  return 1
end

local function mend()
  local now, raw = read_clock()
  local status = load_contract()
  if status == 'no_lane' then return {status, 0, 0, tombstone(raw)} end
  if status == 'faulty' then return {status, 0, 0, 0} end
  load_state()
  local list, entries = C.list, 0
  open_limits(list, now)
  trim(raw)
  local leases = orphans(now)
  local look = next_look(list, now, raw, is_paused(), 'empty')
  local entry = tonumber(call('ZSCORE', K.due, A.lane) or '')
  if look and (not entry or entry > math.max(look, now) + MISSING) then
    entries, W.planned = 1, int(look)
    call('ZADD', K.due, int(look), A.lane)
    call('PUBLISH', A.wake, A.lane)
  end
  save_state()
  return {'ok', entries, leases, 0}
end

return mend()
