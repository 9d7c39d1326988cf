-- list: some jobs of one index in its order, without their bodies. Writes nothing.
-- KEYS: the lane's fixed list (redisdb/keys.go).
-- ARGV[1] lane
-- ARGV[2] index  ready, waiting, leased, dead or done
-- ARGV[3] back   1: from the end to the start
-- ARGV[4] n      entries at most, up to 50
-- ARGV[5] after  place to go on behind: of ready a member, else a score; empty: from the start
-- ARGV[6] id     of the job at that score
-- ARGV[7] until  score behind which nothing is listed, -1: none; only forwards
-- Reply: {'no_lane'} or {'ok', TIME µs, adj, more 0|1, entries}; an entry: {id, place, text, tries}; text is the
-- envelope or what is kept of an ended job, cut behind the meta data. more: 1 when there may be others behind.
A = {lane = ARGV[1], index = ARGV[2], back = ARGV[3] == '1', n = tonumber(ARGV[4]), after = ARGV[5], id = ARGV[6],
  ['until'] = tonumber(ARGV[7]), expect = 0, width = 0, lead = 1000, horizon = 100000, confirmed = '', move = 0}
