-- lane: the contract and the state that every lane script reads.
local function load_contract()
  fields(K.conf, {'version', 'gen', 'limits', 'guard_us', 'cap', 'timeout', 'capacity', 'max_bytes', 'max_history',
    'share', 'weights', 'aging', 'when_paused', 'paused', 'keep_keys', 'keep_done', 'keep_dead', 'dead_max',
    'breaker', 'delivery', 'adaptive', 'verify'}, C)
  if not C.version and not C.limits then return 'no_lane' end
  for _, n in ipairs({'version', 'gen', 'guard_us', 'cap', 'timeout', 'capacity', 'max_bytes', 'max_history', 'share',
    'aging', 'keep_keys', 'keep_done', 'keep_dead', 'dead_max'}) do
    C[n] = finite(C[n])
    if not C[n] or C[n] < 0 then return 'faulty' end
  end
  C.list = parse_limits(C.limits)
  if not C.list then return 'faulty' end
  return 'ok'
end

local function load_state()
  fields(K.state, {'srv', 'vt', 'epoch', 'planned', 'norecover', 'opaused', 'bytes', 'hist', 'deadbytes', 'order',
    'faulty', 'cool', 'good', 'breaker', 'adapt', 'unknown'}, S)
  for _, n in ipairs({'vt', 'epoch', 'norecover', 'bytes', 'hist', 'deadbytes', 'order', 'cool', 'good', 'unknown'}) do S[n] = finite(S[n]) or 0 end
  S.planned = finite(S.planned)
  if C.list then follow(C.list) end
end

-- is_marked says that a worker could not read the rest of this contract.
local function is_marked() return S.faulty and tonumber(S.faulty) == C.version end

local function is_paused() return is_marked() or C.paused == '1' or (S.opaused and S.opaused ~= '') end

-- generation counts how often a lane of this name was created; the shard's list
-- remembers it when the lane is gone.
local function generation()
  return finite(C.gen) or finite(string.match(call('HGET', K.lanes, A.lane) or '', '^(%d+)|')) or 0
end

-- bump adds to a counter of the state; saved with the rest.
local function bump(name, by)
  S[name] = math.max(0, (S[name] or 0) + by)
  W[name] = int(S[name])
end

-- total adds to totals, which nothing in the scripts reads; of a count the reply tells as well.
local function total(name, by) if by ~= 0 then call('HINCRBY', K.state, name, by) end end

local counted = {} -- name, number …
local function count(name, by)
  if by == 0 then return end
  total(name, by)
  counted[#counted + 1] = name ; counted[#counted + 1] = int(by)
end
