-- pause, the main part.
-- probe_now ends the wait of an open breaker, and says whether there was one.
local function probe_now(now)
  local b = S.breaker and read_breaker()
  if not b or b.phase ~= 'open' or b.ends <= now then return false end
  write_breaker(b, 'open', b.n, now, b.since, b.id)
  return true
end

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
  local waited = A.reason == '' and probe_now(now) -- who resumes knows that it is well again
  if (S.opaused or '') == A.reason and not waited then return {'ok', '0'} end
  S.opaused, W.opaused = A.reason, A.reason
  return {'ok', change(now, raw)}
end

return pause()
