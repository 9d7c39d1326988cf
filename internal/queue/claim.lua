-- claim: the due lanes of the shards given; each entry moves one second ahead as crash guard.
-- KEYS: due and clock of each shard, in turn.
-- ARGV[1] limit   lanes at most
-- ARGV[2] first   position of the shard to begin with, from 0
-- ARGV[3] bounds  per shard in the order of KEYS: expect µs (0: unknown) and width µs
-- Reply: {TIME µs, µs to the next entry or '', {adj per shard}, {position of shard, lane, …}}.
local call = redis.call
local function int(x) return string.format('%.0f', x) end
local t = call('TIME')
local raw, limit, n = t[1] * 1000000 + t[2], tonumber(ARGV[1]), #KEYS / 2
local adjs, out, wait, room = {}, {}, nil, limit

for k = 0, n - 1 do
  local i = (tonumber(ARGV[2]) + k) % n
  local due, clock = KEYS[2 * i + 1], KEYS[2 * i + 2]
  local expect, width = tonumber(ARGV[3 + 2 * i]), tonumber(ARGV[4 + 2 * i])
  local adj = tonumber(call('HGET', clock, 'adj') or '0') or 0
  if expect > 0 and raw + adj < expect - 50000 - width then
    adj = adj + math.floor(expect + width / 2 - raw - adj)
    call('HSET', clock, 'adj', int(adj)) ; call('HINCRBY', clock, 'steps', 1)
  end
  adjs[i + 1] = int(adj)
  local now = raw + adj
  local lanes = room > 0 and call('ZRANGEBYSCORE', due, '-inf', int(now), 'LIMIT', 0, room) or {}
  -- A full server lets writes pass behind one that frees memory.
  if lanes[1] then call('ZREM', due, lanes[1]) end
  for _, lane in ipairs(lanes) do
    call('ZADD', due, int(now + 1000000), lane)
    out[#out + 1] = int(i) ; out[#out + 1] = lane
  end
  room = room - #lanes
  local first = call('ZRANGE', due, 0, 0, 'WITHSCORES')
  if first[2] and (not wait or first[2] - now < wait) then wait = math.max(0, first[2] - now) end
end
return {int(raw), wait and int(wait) or '', adjs, out}
