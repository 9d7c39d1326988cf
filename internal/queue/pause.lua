-- pause, the main part.
local function pause()
  local now, raw = read_clock()
  local status = load_contract()
  work_when_full()
  if status == 'no_lane' then return {'no_lane', '0'} end
  if status == 'faulty' then
    call('HSET', K.state, 'opaused', A.reason)
    return {'ok', '0'}
  end
  load_state()
  if (S.opaused or '') == A.reason then return {'ok', '0'} end
  S.opaused, W.opaused = A.reason, A.reason
  return {'ok', change(now, raw)}
end

return pause()
