-- mend, the main part.
local MISSING = 2000000 -- µs after its planned look by which a lane must have been looked at

-- placed says whether a job is where a script would find it.
local function placed(id, t)
  return call('ZSCORE', K.leased, id) or call('ZSCORE', K.waiting, id) or call('ZSCORE', K.ready, member(t, id))
end

-- orphans puts jobs back to ready whose entry was lost, some at a call; scanning
-- jobs reads bodies, so it is done only when the counts differ.
local function orphans()
  local live = call('HLEN', K.jobs)
  if live == 0 then
    call('UNLINK', K.tenantjobs)
    S.bytes, W.bytes = 0, '0'
  end
  if live <= call('ZCARD', K.ready) + call('ZCARD', K.waiting) + call('ZCARD', K.leased) then return 0 end
  local some = math.min(50, math.ceil(MOST_BYTES * live / math.max(1, S.bytes)))
  local page = call('HSCAN', K.jobs, call('HGET', K.state, 'mend') or '0', 'COUNT', some)
  local ids, headers, back = {}, {}, {}
  for i = 1, #page[2], 2 do ids[#ids + 1] = page[2][i] ; headers[#headers + 1] = string.sub(page[2][i + 1], 1, 320) end
  W.mend = page[1]
  local tries = tries_of(ids)
  for i, id in ipairs(ids) do
    local t = tries[i] or parse_header(headers[i])
    if t and not placed(id, t) then back[#back + 1] = {id = id, t = t} end
  end
  if #back > 0 then back_to_ready(back) end
  return #back
end

local function tombstone(raw)
  local over = tonumber(string.match(call('HGET', K.lanes, A.lane) or '', '^%d+|0|(%d+)$') or '')
  if not over or over > raw then return 0 end
  call('HDEL', K.lanes, A.lane)
  call('UNLINK', K.state)
  return 1
end

local function mend()
  local now, raw = read_clock()
  local status = load_contract()
  if status == 'no_lane' then return {status, 0, 0, tombstone(raw)} end
  if status == 'faulty' then return {status, 0, 0, 0} end
  load_state()
  work_when_full()
  local list, entries = C.list, 0
  open_limits(list, now)
  local more = trim(raw, MANY)
  local leases = orphans()
  local look = next_look(list, now, raw, is_paused(), 'empty')
  local entry = tonumber(call('ZSCORE', K.due, A.lane) or '')
  if look and (not entry or entry > math.max(look, now) + MISSING) then
    entries, W.planned = 1, int(look)
    call('ZADD', K.due, int(look), A.lane)
    call('PUBLISH', A.wake, A.lane)
  end
  save_state()
  return {'ok', entries, leases, 0, counted, more and 1 or 0}
end

return mend()
