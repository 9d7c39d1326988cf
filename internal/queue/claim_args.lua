-- claim: the due lanes of the shards given; each entry moves one second ahead as crash guard.
-- KEYS: due and clock of each shard, in turn.
-- ARGV[1] limit   lanes at most
-- ARGV[2] first   position of the shard to begin with, from 0
-- ARGV[3] views   per shard in the order of KEYS: expect, width, slack, confirmed and move, as in a turn
-- Reply: {TIME µs, µs to the next entry or '', {adj per shard}, {position of shard, lane, …}}.
local K = {}
