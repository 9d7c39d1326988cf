-- push: n jobs in order, each seeing the earlier ones: idempotency, capacity, bytes, tenant share.
-- KEYS: the lane's fixed list (redisdb/keys.go).
-- ARGV[1] lane
-- ARGV[2] wake     channel that wakes workers
-- ARGV[3] n        number of jobs, at most 100
-- ARGV[4] jobs     ten arguments each: id, priority, tenant, key hash or -, fingerprint,
--                  delay µs, deliver at µs (TIME, 0: none), expires in µs or at µs (see below), body,
--                  what is kept of it when a script ends it
-- The expiry is "+µs" from now, "µs" in TIME, or 0.
-- Reply: {'no_lane' | 'faulty' | 'paused'} or
-- {'ok', capacity, granted rate per second, paused 0|1, jobs, counted}; a job: {verdict, id, state, depth,
-- estimate µs TIME or '', wait µs}; counted: name, number … of what else the call did.
A = {lane = ARGV[1], wake = ARGV[2], n = tonumber(ARGV[3]), jobs = 4, expect = 0, width = 0, lead = 1000, horizon = 100000,
  confirmed = '', move = 0}
