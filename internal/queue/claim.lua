-- claim, the main part.
-- shard_clock reads the clock of a shard. Time that runs ahead and is not confirmed
-- is taken as it is: a lane that only looks due is claimed, and its turn waits.
local function shard_clock(i)
  local p = 3 + 5 * i
  K.clock, A.expect, A.width, A.slack = KEYS[2 * i + 2], tonumber(ARGV[p]), tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2])
  A.confirmed, A.move = ARGV[p + 3], tonumber(ARGV[p + 4])
  local now, raw, adj = read_clock()
  return now or raw + adj, raw, adj, now or A.expect + A.width
end

local function claim()
  local n, room = #KEYS / 2, tonumber(ARGV[1])
  local adjs, out, wait, time = {}, {}, nil, nil
  for k = 0, n - 1 do
    local i = (tonumber(ARGV[2]) + k) % n
    K.due = KEYS[2 * i + 1]
    local now, raw, adj, sure = shard_clock(i)
    adjs[i + 1], time = int(adj), raw
    local lanes, ahead = room > 0 and due(K.due, now, room) or {}, {}
    if lanes[1] then work_when_full() end
    for _, lane in ipairs(lanes) do
      ahead[#ahead + 1] = int(sure + 1000000) ; ahead[#ahead + 1] = lane
      out[#out + 1] = int(i) ; out[#out + 1] = lane
    end
    write('ZADD', K.due, ahead)
    room = room - #lanes
    local first = first_score(K.due)
    if first and (not wait or first - now < wait) then wait = math.max(0, first - now) end
  end
  return {int(time), wait and int(wait) or '', adjs, out}
end

return claim()
