-- push, the main part.
local function live_state(id)
  if call('ZSCORE', K.leased, id) then return 'leased' end
  if call('ZSCORE', K.waiting, id) then
    local t = parse_try(call('HGET', K.tries, id))
    return t and t.sent == 0 and 'scheduled' or 'waiting'
  end
  return 'ready'
end

local function ended_state(text) return text and string.match(text, '^(%a+)|') or nil end

-- state_of answers where a job is, or nil when nothing is known of it.
local function state_of(id)
  if call('HEXISTS', K.jobs, id) == 1 then return live_state(id) end
  return ended_state(call('HGET', K.done, id) or call('HGET', K.deadjobs, id))
end

-- known_ids answers the same for the ids of a push. They are mostly new, so all
-- are looked for at once: no body is read that the call does not bring as well.
local function known_ids(jobs, depth)
  local ids, out = {}, {}
  for i, j in ipairs(jobs) do ids[i] = j.id end
  local live = depth > 0 and call('HMGET', K.jobs, unpack(ids)) or {}
  local done, dead = call('HMGET', K.done, unpack(ids)), call('HMGET', K.deadjobs, unpack(ids))
  for i, id in ipairs(ids) do
    if live[i] then out[id] = live_state(id) else out[id] = ended_state(done[i] or dead[i]) end
  end
  return out
end

local function read_job(i, raw)
  local p = A.jobs + (i - 1) * 10
  local j = {id = ARGV[p], prio = tonumber(ARGV[p + 1]), key = ARGV[p + 3], print = ARGV[p + 4],
    delay = tonumber(ARGV[p + 5]), body = ARGV[p + 8]}
  local at, expiry = tonumber(ARGV[p + 6]), ARGV[p + 7]
  if at > 0 then j.delay = at - raw end
  local within = expiry ~= '0' and string.match(expiry, '^%+(%d+)$')
  j.t = new_try('', within and raw + tonumber(within) or tonumber(expiry), #j.body, j.key, ARGV[p + 2])
  j.t.history = ARGV[p + 9]
  return j
end

local function envelope(j)
  local t = j.t
  return '2' .. int(j.prio) .. t.order .. (t.expiry > 0 and int(t.expiry) or '') .. '|' .. int(t.size) .. '|' .. j.key .. '|' ..
    t.tenant .. '\0' .. j.body
end

-- estimate is when the k-th job from now is sent, k counted in fair order.
local function estimate(list, now, raw, ready, own, tenants)
  local ahead = ready
  if tenants > 1 then ahead = math.min(ready, own * tenants) end
  return int(after(list, math.max(now + A.lead, S.cool), ahead) - now + raw)
end

-- verdict decides on one job; q is the queue as it stands after the earlier ones.
local function verdict(j, q, known, ids)
  local k = j.key ~= NO_KEY and known[j.key]
  if k and k.print == j.print then return 'replayed', k.id, k.state ~= '' and k.state or (q.added[k.id] or state_of(k.id) or 'ready') end
  if k then return 'conflict', k.id, '' end
  local state = q.added[j.id] or ids[j.id]
  if state then return 'accepted', j.id, state end
  if q.depth >= C.capacity then return 'full' end
  if q.bytes + j.t.size > C.max_bytes then return 'bytes_full' end
  if C.share > 0 and j.t.tenant ~= '' and q.own(j.t.tenant) >= C.share * (C.capacity - q.depth) then return 'share_full' end
  return nil
end

-- open_queue reads what is there; one that might be full drops expired jobs first.
local function open_queue(raw, size)
  local q = {depth = call('HLEN', K.jobs), bytes = S.bytes, added = {}, count = {}, ready = 0}
  if (q.depth + A.n > C.capacity or q.bytes + size > C.max_bytes) and expire(raw) > 0 then q.depth = call('HLEN', K.jobs) ; q.bytes = S.bytes end
  local none = q.depth == 0 -- what is of jobs is empty then; where this call writes, what was left behind counts again
  if none then R[K.leased], R[K.waiting], R[K.expires] = {size = 0}, {first = false}, {first = false} end
  q.own = function(tenant)
    if not q.count[tenant] then q.count[tenant] = none and 0 or tonumber(call('HGET', K.tenantjobs, tenant) or '0') end
    return q.count[tenant]
  end
  q.tenants = size_of(K.tenants)
  q.ready = q.tenants > 0 and call('ZCARD', K.ready) or 0
  return q
end
