-- ends: how jobs leave the lane. A batch collects the writes of many jobs.
local ended = 0 -- jobs that this call ended, and ended ones that it moved
local MOST_BYTES = 819200 -- of bodies that a mechanism reads or moves in one call; a larger one goes alone
local JOB_BYTES = 6144 -- what a job costs beside its body, in bytes of bodies

local function new_batch()
  return {gone = {}, unready = {}, unwait = {}, unexpire = {}, done = {}, doneends = {}, dead = {}, deadjobs = {},
    undead = {}, keys = {}, tenants = {}, bytes = 0, hist = 0, deadbytes = 0, unknown = 0, told = {}}
end

-- tell counts what no caller knows of a batch by itself: a result tells how its job ended, and these have none.
local function tell(b, what) b.told[what] = (b.told[what] or 0) + 1 end

-- leave removes a job from what is live; where says which of ready and waiting may hold it.
local function leave(b, id, t, where)
  b.gone[#b.gone + 1] = id
  if where == 'ready' then b.unready[#b.unready + 1] = {id = id, t = t} end
  if where == 'waiting' then b.unwait[#b.unwait + 1] = id end
  if t.expiry ~= 0 then b.unexpire[#b.unexpire + 1] = id end
  b.tenants[t.tenant] = (b.tenants[t.tenant] or 0) + 1
  b.bytes = b.bytes + t.size
end

-- finish ends a job as delivered, expired or cancelled.
local function finish(b, id, t, state, outcome, note, raw)
  local text = state .. '|' .. int(raw) .. '|' .. outcome .. '|' .. note
  b.done[#b.done + 1] = id ; b.done[#b.done + 1] = text
  b.doneends[#b.doneends + 1] = int(raw + C.keep_done) ; b.doneends[#b.doneends + 1] = id
  b.hist = b.hist + #text + 180
  if t.key ~= NO_KEY then b.keys[#b.keys + 1] = {key = t.key, state = state} end
end

-- bury ends a job as dead or unknown: its envelope stays, for redrive.
local function bury(b, id, state, reason, note, raw, env)
  local text = state .. '|' .. int(raw) .. '|' .. reason .. '|' .. int(#note) .. '|' .. note .. env
  b.dead[#b.dead + 1] = int(raw) ; b.dead[#b.dead + 1] = id
  b.deadjobs[#b.deadjobs + 1] = id ; b.deadjobs[#b.deadjobs + 1] = text
  b.deadbytes = b.deadbytes + #text
  if state == 'unknown' then b.unknown = b.unknown + 1 end
end

-- unbury takes out a dead or unknown job, which goes elsewhere.
local function unbury(b, id, text)
  b.undead[#b.undead + 1] = id
  b.deadbytes = b.deadbytes - #text
  if string.sub(text, 1, 8) == 'unknown|' then b.unknown = b.unknown - 1 end
end

-- bury_unreadable puts aside what cannot be read; a missing body is only counted.
local function bury_unreadable(b, id, env, t, raw)
  tell(b, 'unreadable')
  leave(b, id, {tenant = t.tenant or '', size = t.size or env and #env or 0}, 'leased')
  if env then bury(b, id, 'dead', 'unreadable', '', raw, env) ; tell(b, 'ended_dead') end
  if t.key and t.key ~= NO_KEY then b.keys[#b.keys + 1] = {key = t.key, state = 'dead'} end
end

-- end_keys starts the rest of the life of the keys of jobs that ended.
local function end_keys(b, raw)
  if #b.keys == 0 then return end
  local names, set, ends = {}, {}, {}
  for i, k in ipairs(b.keys) do names[i] = k.key end
  for i, v in ipairs(call('HMGET', K.idem, unpack(names))) do
    if v then
      set[#set + 1] = names[i] ; set[#set + 1] = string.sub(v, 1, 44) .. b.keys[i].state
      ends[#ends + 1] = int(raw + C.keep_keys) ; ends[#ends + 1] = names[i]
      b.hist = b.hist + 230
    end
  end
  write('HSET', K.idem, set)
  write('ZADD', K.idemends, ends)
end

-- flush writes a batch: what frees memory comes first, so that a full server lets it through.
local function flush(b, raw)
  if #b.gone + #b.undead + #b.done == 0 then return end
  write('HDEL', K.deadjobs, b.undead)
  write('ZREM', K.dead, b.undead)
  write('HDEL', K.jobs, b.gone)
  write('HDEL', K.tries, b.gone)
  write('ZREM', K.leased, b.gone)
  write('ZREM', K.expires, b.unexpire)
  write('ZREM', K.waiting, b.unwait)
  drop_dry(take_ready(b.unready))
  for tenant, n in pairs(b.tenants) do
    if call('HINCRBY', K.tenantjobs, tenant, -n) <= 0 then call('HDEL', K.tenantjobs, tenant) end
  end
  write('HSET', K.done, b.done)
  write('ZADD', K.doneends, b.doneends)
  write('HSET', K.deadjobs, b.deadjobs)
  write('ZADD', K.dead, b.dead)
  end_keys(b, raw)
  bump('bytes', -b.bytes) ; bump('hist', b.hist) ; bump('deadbytes', b.deadbytes)
  if b.unknown ~= 0 then bump('unknown', b.unknown) end
  for what, n in pairs(b.told) do count(what, n) end
  ended = ended + #b.gone + #b.undead
end
