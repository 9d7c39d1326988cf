-- apply, the main part.
local function refused(old, owner)
  if A.ifnone and old then return 'version_mismatch' end
  if A.ifversion > 0 and (not old or tonumber(old) ~= A.ifversion) then return 'version_mismatch' end
  if not old then return nil end
  local kind, set, revision = string.match(owner or '', '^(%a+)|([^|]*)|(%d+)$')
  if kind == 'file' and A.kind ~= 'file' then return 'owned_by_file' end
  if A.kind == 'file' and (kind ~= 'file' and kind ~= 'orphaned' or set ~= A.set) then return 'owned_by_other' end
  if A.kind == 'file' and A.revision > 0 and A.revision < tonumber(revision) then return 'older' end
end

local function same(source)
  local names, values = {'source'}, {source}
  for i = A.fields, #ARGV, 2 do names[#names + 1] = ARGV[i] ; values[#values + 1] = ARGV[i + 1] end
  for i, v in ipairs(call('HMGET', K.conf, unpack(names))) do if v ~= values[i] then return false end end
  return true
end

local UNBEGUN = 'closed|0|0|0|' -- a breaker that the contract does not have, or never had

-- begin_breaker has one that is switched on start closed: what was sent before tells nothing.
local function begin_breaker(now)
  local has = terms()
  if has and (S.breaker or UNBEGUN) == UNBEGUN then S.breaker = 'closed|0|0|' .. int(now) .. '|'
  elseif not has and S.breaker then S.breaker = UNBEGUN end
  W.breaker = S.breaker or nil
end

local function apply()
  local now, raw = read_clock()
  fields(K.conf, {'version', 'gen', 'source', 'limits'}, C)
  local old, limits = C.version, parse_limits(C.limits)
  local source = A.kind .. '|' .. A.set .. '|' .. int(A.revision)
  local verdict = refused(old, C.source)
  local gen = generation()
  if verdict then return {verdict, old or '0', int(gen), '0'} end
  if not A.dry then work_when_full() end
  if A.lost and old and not A.dry then call('HSET', K.state, 'srv', 'lost') end
  if old and same(source) then return {'unchanged', old, int(gen), '0'} end
  if not old then gen = gen + 1 end
  local version = (tonumber(old or '') or 0) + 1
  verdict = old and 'updated' or 'created'
  if A.dry then return {verdict, int(version), int(gen), '0'} end
  local conf = {'version', int(version), 'gen', int(gen), 'source', source}
  for i = A.fields, #ARGV do conf[#conf + 1] = ARGV[i] end
  write('HSET', K.conf, conf)
  call('HSET', K.lanes, A.lane, int(gen) .. '|' .. int(version) .. '|0')
  if not old then
    W.srv, W.opaused = A.lost and 'lost' or identity(), ''
    if call('HGET', K.state, 'srv') then W.srv = nil end
  end
  if load_contract() ~= 'ok' then save_state() return {verdict, int(version), int(gen), '0'} end
  load_state()
  inherit(C.list, limits, now)
  begin_breaker(now)
  return {verdict, int(version), int(gen), change(now, raw)}
end

return apply()
