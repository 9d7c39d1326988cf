-- start: marks jobs whose sending begins. A lease that runs out counts as a
-- crash of its job only when it was the first, or had started.
-- KEYS: the lane's fixed list (redisdb/keys.go).
-- ARGV[1] jobs  id and token of each
-- Reply: 1 for each job that is still held under its token, else 0.
local ids, out, set = {}, {}, {}
for i = 1, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local tries, leases = tries_of(ids), #ids > 0 and call('ZMSCORE', K.leased, unpack(ids)) or {}
for i, id in ipairs(ids) do
  local t = tries[i]
  local held = leases[i] and t and t.token ~= '' and t.token == ARGV[2 * i]
  out[i] = held and 1 or 0
  if held then t.started = 1 ; set[#set + 1] = id ; set[#set + 1] = format_try(t) end
end
work_when_full()
write('HSET', K.tries, set)
return out
