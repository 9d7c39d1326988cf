-- mend: compare a lane with its due entry and its counts; repair what differs.
-- KEYS: the lane's fixed list (redisdb/keys.go).
-- ARGV[1] lane
-- ARGV[2] wake  channel that wakes workers
-- Reply: {'no_lane' | 'faulty' | 'ok', repaired entries, repaired leases, removed tombstones}; 'ok' is followed by
-- counted: name, number … of what the call did; and 1 when there may be more to trim.
A = {lane = ARGV[1], wake = ARGV[2], expect = 0, width = 0, lead = 1000, horizon = 100000, confirmed = '', move = 0}
