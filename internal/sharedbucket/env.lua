-- env: what every part uses. A holds the call's arguments (set by the script's
-- first part), C the contract, S the state as read, W the state to write at the end,
-- R what was read of sorted sets: key -> {first, size}.
local call = redis.call
local A, C, S, W, R = {}, {}, {}, {}, {}

-- int formats an integer in microseconds; tostring and .. would lose digits.
-- Formatting is much of what a turn costs: %d takes half the time of %.0f, where it
-- is of 64 bits, and most numbers are 0 or 1.
local FORM = string.format('%d', 4503599627370496) == '4503599627370496' and '%d' or '%.0f'
local digit = {[0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}
local function int(x) return digit[x] or string.format(FORM, x) end

-- finite reads a number that a script can go on with: damaged text, nan, infinity
-- and what is larger than any time or count are none.
local LARGEST = 4e15 -- µs: the year 2096
local function finite(text)
  local n = tonumber(text or '')
  return n and n > -LARGEST and n < LARGEST and n or nil
end

-- fields reads named hash fields into a table; missing ones are false.
local function fields(key, names, into)
  local v = call('HMGET', key, unpack(names))
  for i, n in ipairs(names) do into[n] = v[i] end
end

-- write sends one variadic command, cut so that unpack never overflows. Of a sorted
-- set that is remembered it forgets the first score, and goes on counting the members.
local GROWS = {ZADD = 1, ZREM = -1, ZREMRANGEBYSCORE = -1, ZREMRANGEBYRANK = -1} -- by what they answer
local function write(command, key, args)
  for i = 1, #args, 1000 do
    local n, r = call(command, key, unpack(args, i, math.min(i + 999, #args))), R[key]
    if r then r.first, r.size = nil, r.size and GROWS[command] and r.size + GROWS[command] * n end
  end
end

-- first_score and size_of ask once for what they remember until a write, which therefore
-- goes through write: half of what a call costs is asking.
local function first_score(key)
  local r = R[key] or {}
  R[key] = r
  if r.size == 0 then return nil end
  if r.first == nil then
    local z = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    r.first = tonumber(z[2] or '') or false
    if not z[2] then r.size = 0 end
  end
  return r.first or nil
end

local function size_of(key)
  local r = R[key] or {}
  R[key] = r
  r.size = r.size or call('ZCARD', key)
  return r.size
end

-- score_of is the score of a member, if any.
local function score_of(key, member)
  if R[key] and R[key].size == 0 then return nil end
  return tonumber(call('ZSCORE', key, member) or '')
end

-- due lists up to n members whose score has come.
local function due(key, time, n)
  local first = first_score(key)
  if not first or first > time then return {} end
  return call('ZRANGEBYSCORE', key, '-inf', int(time), 'LIMIT', 0, n)
end

-- work_when_full lets a full server take the writes of this call: it refuses a
-- command that may need memory only while the script has called none that writes.
local function work_when_full() call('ZREM', K.due, '') end

-- save_state writes W into the lane's state in one command.
local function save_state()
  local flat = {}
  for k, v in pairs(W) do flat[#flat + 1] = k; flat[#flat + 1] = v end
  if #flat > 0 then write('HSET', K.state, flat) end
end

-- algorithms of limits; each file adds its own.
local algorithms = {}
