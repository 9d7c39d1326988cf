-- delete, the main part.
-- HELD is what a lane holds of jobs, and its contract. Its state stays as a
-- tombstone: slots that were granted may still be used.
local HELD = {'conf', 'jobs', 'ready', 'tenants', 'finish', 'tenantjobs', 'waiting', 'leased', 'tries', 'expires', 'calendar', 'idem',
  'idemends', 'dead', 'deadjobs', 'done', 'doneends'}

-- not_mine says whose the lane is, when it is not the caller's to delete.
local function not_mine()
  local kind, set = string.match(C.source or '', '^(%a+)|([^|]*)|')
  if A.set == '' then return kind == 'file' and 'owned_by_file' end
  return (kind ~= 'file' and kind ~= 'orphaned' or set ~= A.set) and 'owned_by_other'
end

-- delete takes one step, however many jobs there are: UNLINK frees behind Redis'
-- back. Live jobs end as cancelled, of which nothing is kept but that the lane is gone.
local function delete()
  local now, raw = read_clock()
  fields(K.conf, {'version', 'gen', 'source', 'limits'}, C)
  if not C.version and call('EXISTS', K.conf) == 0 then return {'no_lane', '0'} end
  if A.ifversion > 0 and tonumber(C.version) ~= A.ifversion then return {'version_mismatch', '0'} end
  local owner = not_mine()
  if owner then return {owner, '0'} end
  if not A.cancel and call('HLEN', K.jobs) > 0 then return {'not_empty', '0'} end
  load_state()
  work_when_full()
  local held = {}
  for i, name in ipairs(HELD) do held[i] = K[name] end
  call('UNLINK', unpack(held))
  call('ZREM', K.due, A.lane)
  call('HDEL', K.state, 'opaused', 'bytes', 'hist', 'deadbytes', 'unknown', 'planned', 'vt', 'norecover', 'faulty', 'unfit', 'cool', 'good', 'breaker', 'adapt')
  W.epoch = int(S.epoch + 1)
  local limits = parse_limits(C.limits)
  if limits then W.tol = int(widest(limits, now)) .. ':0:' .. int(now) end -- for a lane of this name that is made meanwhile
  save_state()
  call('HSET', K.lanes, A.lane, int(generation()) .. '|0|' .. int(raw + A.keep))
  local last = tonumber(call('HGET', K.state, 'last') or '0') or 0
  return {'deleted', int(math.max(0, last + 1000000 - now))}
end

return delete()
