-- glance: which lanes of one shard a sweep has to mend or trim. Most of many have nothing to be done. Writes nothing.
-- KEYS: of each lane conf, state, tenantjobs, jobs, dead, doneends and idemends.
-- ARGV[1] lanes  number of lanes
-- Reply: the positions of those to be mended, from 1.
local call, out = redis.call, {}
local t = call('TIME')
local raw = t[1] * 1000000 + t[2]

local function over(key)
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2]) <= raw
end

local function needed(conf, state, tenantjobs, jobs, dead, doneends, idemends)
  if call('EXISTS', jobs, tenantjobs, dead, doneends, idemends) == 0 then return false end
  if call('EXISTS', jobs, tenantjobs, dead) > 0 or over(doneends) or over(idemends) then return true end
  local hist = tonumber(call('HGET', state, 'hist') or '') or 0
  return hist > (tonumber(call('HGET', conf, 'max_history') or '') or 0)
end

for i = 1, tonumber(ARGV[1]) do
  local ok, yes = pcall(needed, unpack(KEYS, 7 * i - 6, 7 * i))
  if yes or not ok then out[#out + 1] = i end
end
return out
