-- survey: lanes of one shard as they stand, for the gauges of the fleet. Writes nothing.
-- KEYS: the clock of the shard, then of each lane the keys in LANE: a lane's fixed list would be three times as long.
-- ARGV[1] lanes  number of lanes
-- ARGV[2] known   of each lane the version and generation that the caller has seen whole, or empty
-- Reply: one list per lane: {'no_lane'}; {'damaged'} when its data is of other types than scripts write;
-- {'idle', paused by the operator 0|1, dead, unknown} when it has the known version and no jobs;
-- or {'ok' | 'faulty', class, paused, jobs, ready, waiting, leased, dead, unknown, bytes, age µs of the oldest job or '', capacity,
-- max_bytes, occupied µs, version.generation, limits …}; paused: 0 no, 1 by the operator, 2 by the contract, 3 probing, 4 cooling down, 5 a worker cannot send; a limit: name, rate, window µs,
-- window and tolerance µs. From age on all is left out where the contract is faulty. occupied: how long a job holds a sender, 0 when none has.
A = {lanes = tonumber(ARGV[1]), expect = 0, width = 0, lead = 1000, horizon = 100000, confirmed = '', move = 0}
K = {}
local LANE = {'conf', 'state', 'jobs', 'ready', 'tenants', 'waiting', 'leased', 'tries', 'dead'}
