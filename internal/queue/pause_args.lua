-- pause: set or clear the operator's pause.
-- KEYS: the lane's fixed list (redisdb/keys.go).
-- ARGV[1] lane
-- ARGV[2] wake    channel that wakes workers
-- ARGV[3] reason  JSON {reason, at}; empty: resume, and probe at once if the breaker is open
-- Reply: {'no_lane' | 'faulty' | 'ok', µs until slots granted before are over}.
A = {lane = ARGV[1], wake = ARGV[2], reason = ARGV[3], expect = 0, width = 0, lead = 1000, horizon = 100000, confirmed = '', move = 0}
