-- delete: end a lane with all that it holds.
-- KEYS: the lane's fixed list (redisdb/keys.go).
-- ARGV[1] lane
-- ARGV[2] ifversion  version that must be stored, 0: any
-- ARGV[3] cancel     1: live jobs end as cancelled; otherwise they refuse the delete
-- ARGV[4] keep       µs for which the lane's slots are remembered
-- ARGV[5] set        of a file: only what it owns or let go is ended; empty: only what no file owns
-- Reply: {verdict, µs until slots granted before are over}; verdict: no_lane, version_mismatch,
-- owned_by_file, owned_by_other, not_empty, deleted.
A = {lane = ARGV[1], ifversion = tonumber(ARGV[2]), cancel = ARGV[3] == '1', keep = tonumber(ARGV[4]), set = ARGV[5],
  expect = 0, width = 0, lead = 1000, horizon = 100000, confirmed = '', move = 0}
