-- apply: store a lane's contract.
-- KEYS: the lane's fixed list (redisdb/keys.go).
-- ARGV[1] lane
-- ARGV[2] wake       channel that wakes workers
-- ARGV[3] ifversion  version that must be stored, 0: any
-- ARGV[4] ifnone     1: the lane must not exist
-- ARGV[5] dry        1: check only
-- ARGV[6] kind       of the source: api, file or demo
-- ARGV[7] set        of a file
-- ARGV[8] revision   of a file, 0: none
-- ARGV[9] lost       1: the caller has known another installation under this name: memory was lost
-- ARGV[10] fields    name, value … of the conf hash
-- Reply: {verdict, version, gen, effective µs}; verdict: created, updated, unchanged,
-- version_mismatch, owned_by_file, owned_by_other, older.
A = {lane = ARGV[1], wake = ARGV[2], ifversion = tonumber(ARGV[3]), ifnone = ARGV[4] == '1', dry = ARGV[5] == '1',
  kind = ARGV[6], set = ARGV[7], revision = tonumber(ARGV[8]), lost = ARGV[9] == '1', fields = 10,
  expect = 0, width = 0, lead = 1000, horizon = 100000, confirmed = '', move = 0}
