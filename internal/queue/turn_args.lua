-- turn: settle results, recover, promote, expire, lease with slots, plan the next look.
-- KEYS: the lane's fixed list (redisdb/keys.go).
-- ARGV[1] lane
-- ARGV[2] wake       channel that wakes workers
-- ARGV[3] worker     id of the calling worker, no colon
-- ARGV[4] call       number of this call of the worker
-- ARGV[5] lost       calls whose reply was lost: "call,first deadline µs,last deadline µs;" …
-- ARGV[6] want       jobs wanted, at most 100; 0: only settle
-- ARGV[7] short      1 when want is less than the worker could use, for want of senders
-- ARGV[8] keep       1 when the worker will look again by its own timer
-- ARGV[9] expect     earliest logical time µs by the worker's bounds, 0: unknown
-- ARGV[10] width     of those bounds, µs
-- ARGV[11] slack     by which calls of the worker run later than they could, lately, µs
-- ARGV[12] confirmed adj of the clock for which the worker saw a step forward, or empty
-- ARGV[13] move      what to add to adj then, µs
-- ARGV[14] lead      µs from now to the first slot
-- ARGV[15] horizon   µs from now to the last slot
-- ARGV[16] bytes     of bodies at most
-- ARGV[17] mylast    last slot this worker was granted on the lane, µs, 0: none
-- ARGV[18] late      by which writes of this worker are late, p99, µs
-- ARGV[19] nres      number of results
-- ARGV[20] results   eight arguments each, see settle
-- Reply: {'no_lane' | 'faulty', results} or {'clock', logical µs, adj}
-- or {'ok', logical, adj, stepped, lost, epoch, version, gen, tolerance µs, timeout µs, look µs or '', why, results, leases,
-- held, counted}; held: the limit for which ready jobs stay, or ''; counted: name, number … of what the call did.
A = {lane = ARGV[1], wake = ARGV[2], worker = ARGV[3], call = ARGV[4], lost = ARGV[5], want = tonumber(ARGV[6]),
  short = tonumber(ARGV[7]), keep = ARGV[8] == '1', expect = tonumber(ARGV[9]), width = tonumber(ARGV[10]), slack = tonumber(ARGV[11]),
  confirmed = ARGV[12], move = tonumber(ARGV[13]), lead = tonumber(ARGV[14]), horizon = tonumber(ARGV[15]),
  bytes = tonumber(ARGV[16]), turns = true, mylast = tonumber(ARGV[17]), late = tonumber(ARGV[18]), nres = tonumber(ARGV[19]), results = 20}
