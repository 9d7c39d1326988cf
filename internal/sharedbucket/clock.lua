-- clock: logical time of the shard = TIME + adj, and the server's identity.
-- A.expect is the earliest logical time at which this call can run by the
-- caller's bounds (0: it has none), A.width the width of those bounds, A.slack by
-- how much its calls run later than that, lately.
local STEP = 50000 -- µs by which time may be off before it is a step

-- read_clock returns logical time, TIME, adj and whether a step was mended; nil
-- for the time when it runs ahead and the caller has not confirmed that: a
-- delayed call looks just like a step forward, and only the reply can tell them apart.
local function read_clock()
  local t = call('TIME')
  local raw = t[1] * 1000000 + t[2]
  local adj = tonumber(call('HGET', K.clock, 'adj') or '0') or 0
  local off, move = 0, 0
  if A.expect > 0 then off = raw + adj - A.expect end
  if off < -STEP - A.width then
    move = math.floor(A.width / 2 - off)
  elseif off > STEP + A.width + (A.slack or 0) then
    if A.confirmed ~= int(adj) then return nil, raw, adj, false end
    move = A.move
  end
  if move ~= 0 then
    work_when_full()
    adj = adj + move
    call('HSET', K.clock, 'adj', int(adj))
    call('HINCRBY', K.clock, 'steps', 1)
  end
  return raw + adj, raw, adj, move ~= 0
end

-- identity is the run id of the server; '-' where INFO is refused or absent.
local function identity()
  local info = redis.pcall('INFO', 'server')
  if type(info) ~= 'string' then return '-' end
  return string.match(info, 'run_id:(%x+)') or '-'
end
