-- lane: the contract and the state that every lane script reads.
-- Tables are made in one piece: Lua copies one that grows field by field over and over.
local function load_contract()
  local v = call('HMGET', K.conf, 'version', 'gen', 'limits', 'guard_us', 'cap', 'timeout', 'capacity', 'max_bytes',
    'max_history', 'share', 'weights', 'aging', 'when_paused', 'paused', 'keep_keys', 'keep_done', 'keep_dead', 'dead_max',
    'breaker', 'delivery', 'adaptive', 'verify')
  if not v[1] and not v[3] then return 'no_lane' end
  local sound = true
  local function figure(text)
    local n = finite(text)
    if not n or n < 0 then sound = false end
    return n
  end
  C = {version = figure(v[1]), gen = figure(v[2]), limits = v[3], guard_us = figure(v[4]), cap = figure(v[5]),
    timeout = figure(v[6]), capacity = figure(v[7]), max_bytes = figure(v[8]), max_history = figure(v[9]), share = figure(v[10]),
    weights = v[11], aging = figure(v[12]), when_paused = v[13], paused = v[14], keep_keys = figure(v[15]),
    keep_done = figure(v[16]), keep_dead = figure(v[17]), dead_max = figure(v[18]), breaker = v[19], delivery = v[20],
    adaptive = v[21], verify = v[22], list = parse_limits(v[3])}
  if sound and C.list then return 'ok' end
  C.list = nil -- nobody may count on the rest
  return 'faulty'
end

local function load_state()
  local limits = C.list and limit_fields(C.list) or {}
  local v = call('HMGET', K.state, 'srv', 'vt', 'epoch', 'planned', 'norecover', 'opaused', 'bytes', 'hist', 'deadbytes', 'order',
    'faulty', 'cool', 'good', 'breaker', 'adapt', 'unknown', 'occupied', 'granted', 'accepted', unpack(limits))
  S = {srv = v[1], vt = finite(v[2]) or 0, epoch = finite(v[3]) or 0, planned = finite(v[4]), norecover = finite(v[5]) or 0,
    opaused = v[6], bytes = finite(v[7]) or 0, hist = finite(v[8]) or 0, deadbytes = finite(v[9]) or 0, order = finite(v[10]) or 0,
    faulty = v[11], cool = finite(v[12]) or 0, good = finite(v[13]) or 0, breaker = v[14], adapt = v[15], unknown = finite(v[16]) or 0,
    occupied = finite(v[17]), granted = finite(v[18]) or 0, accepted = finite(v[19]) or 0}
  for i, name in ipairs(limits) do S[name] = v[19 + i] end
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

-- count adds to a total, which nothing in the scripts reads; the reply tells of it as well.
local counted = {} -- name, number …
local function count(name, by)
  if by == 0 then return end
  call('HINCRBY', K.state, name, by)
  counted[#counted + 1] = name ; counted[#counted + 1] = int(by)
end
