-- read: a lane as it stands, and one of its jobs. Writes nothing.
-- KEYS: the lane's fixed list (redisdb/keys.go).
-- ARGV[1] lane
-- ARGV[2] id    of a job; empty: none
-- Reply: {'no_lane'} or {'ok' | 'faulty', TIME µs, adj, conf, state, counts, job}; conf and state as
-- flat lists; counts: jobs, ready, waiting, leased, dead, idem keys, done, when the oldest job was pushed (see oldest) (logical µs or '');
-- job: {} or {state, envelope, tries, due µs or '', ended text, ahead, estimate µs TIME or '', waiting for}.
A = {lane = ARGV[1], id = ARGV[2], expect = 0, width = 0, lead = 1000, horizon = 100000, confirmed = '', move = 0}
