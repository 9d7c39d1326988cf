-- delete, the main part.
local CHUNK = 100

-- cancel_some ends up to CHUNK live jobs as cancelled.
local function cancel_some(raw)
  local b = new_batch()
  for where, key in pairs({leased = K.leased, waiting = K.waiting}) do
    local ids = call('ZRANGE', key, 0, CHUNK - 1)
    local tries = tries_of(ids)
    for i, id in ipairs(ids) do
      local t = tries[i]
      if t then leave(b, id, t, where) ; finish(b, id, t, 'cancelled', 'destination_deleted', t.history, raw)
      else b.gone[#b.gone + 1] = id ; b.unwait[#b.unwait + 1] = id end
    end
  end
  local members = call('ZRANGE', K.ready, 0, CHUNK - 1)
  for _, m in ipairs(members) do
    local id, cut = string.sub(m, -22), #m - 22 - 14
    local t = {tenant = string.sub(m, 1, cut - 1), order = string.sub(m, cut + 1, -23), size = 0, key = NO_KEY}
    leave(b, id, t, 'leased') -- as it stands in ready it is removed below
    finish(b, id, t, 'cancelled', 'destination_deleted', '', raw)
  end
  write('ZREM', K.ready, members)
  flush(b, raw)
  return #b.gone
end

-- not_mine says whose the lane is, when it is not the caller's to delete.
local function not_mine()
  local kind, set = string.match(C.source or '', '^(%a+)|([^|]*)|')
  if A.set == '' then return kind == 'file' and 'owned_by_file' end
  return (kind ~= 'file' and kind ~= 'orphaned' or set ~= A.set) and 'owned_by_other'
end

local function delete()
  local now, raw = read_clock()
  fields(K.conf, {'version', 'gen', 'source', 'deleting', 'keep_done', 'keep_keys'}, C)
  if not C.version and call('EXISTS', K.conf) == 0 then return {'no_lane', '0'} end
  if A.ifversion > 0 and tonumber(C.version) ~= A.ifversion then return {'version_mismatch', '0'} end
  local owner = C.deleting ~= '1' and not_mine()
  if owner then return {owner, '0'} end
  C.keep_done, C.keep_keys = tonumber(C.keep_done or '') or 900000000, tonumber(C.keep_keys or '') or 0
  load_state()
  work_when_full()
  if C.deleting ~= '1' then
    if call('HLEN', K.jobs) > 0 and not A.cancel then return {'not_empty', '0'} end
    W.epoch = int(S.epoch + 1)
    call('HSET', K.conf, 'deleting', '1')
    call('ZREM', K.due, A.lane)
  end
  local left = cancel_some(raw)
  save_state()
  if left > 0 then return {'more', '0'} end
  local last = tonumber(call('HGET', K.state, 'last') or '0') or 0
  for _, name in ipairs({'conf', 'jobs', 'ready', 'tenants', 'finish', 'tenantjobs', 'waiting', 'leased', 'tries', 'expires',
    'calendar', 'idem', 'idemends', 'dead', 'deadjobs', 'done', 'doneends'}) do call('UNLINK', K[name]) end
  call('HDEL', K.state, 'opaused', 'bytes', 'hist', 'deadbytes', 'planned', 'vt', 'norecover', 'faulty', 'unfit')
  call('ZREM', K.due, A.lane)
  call('HSET', K.lanes, A.lane, int(generation()) .. '|0|' .. int(raw + A.keep))
  return {'deleted', int(math.max(0, last + 1000000 - now))}
end

return delete()
