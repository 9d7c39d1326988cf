-- lease: up to A.want jobs, each with its slot. Answers the leases and why it stopped:
-- empty, slot (the next slot is beyond the horizon, or for want of senders beyond half of it), cap, senders, more, none
-- (nothing was wanted), held (by a cool-down or the breaker).
-- A lease: id, token, slot, sent, used, crashes, first, history, envelope, in doubt 0|1.

-- sort_out parses the chosen jobs: those that may take a slot, and a batch of
-- expired, unreadable and bodiless ones, if any. raw_at(i) is TIME at the i-th slot.
local function sort_out(chosen, n, raw_at, raw)
  local ids, members, good, b = {}, {}, {}, nil
  if n == 0 then return good, members end
  for i = 1, n do
    local q = chosen[i].queue
    ids[i], members[i], q.taken = chosen[i].id, chosen[i].member, q.taken + 1
  end
  local envs, tries = call('HMGET', K.jobs, unpack(ids)), tries_of(ids)
  for i = 1, n do
    local env = envs[i]
    local t = env and (tries[i] or parse_header(env))
    local fit = t and not (t.expiry > 0 and t.expiry <= raw_at(#good + 1))
    if not fit then b = b or new_batch() end
    if not t then bury_unreadable(b, ids[i], env, tries[i] or {tenant = chosen[i].tenant}, raw)
    elseif not fit then end_expired(b, ids[i], t, 'leased', raw)
    else good[#good + 1] = {id = ids[i], t = t, env = env, queue = chosen[i].queue, start = chosen[i].start} end
  end
  return good, members, b
end

local function grant_jobs(good, slots, list)
  local out, leased, tries, unexpire, paid, vt = {}, {}, {}, {}, {}, nil
  for i, g in ipairs(good) do
    local t, slot = g.t, slots[i]
    t.token, t.slot, t.started = A.worker .. ':' .. A.call .. ':' .. i, slot, t.started == 2 and 2 or 0
    out[i] = {g.id, t.token, int(slot), int(t.sent), int(t.used), int(t.crashes), int(t.first), t.history, g.env, t.started == 2 and '1' or '0'}
    leased[#leased + 1] = int(slot + list.tolerance + C.timeout + 5000000) ; leased[#leased + 1] = g.id
    tries[#tries + 1] = g.id ; tries[#tries + 1] = format_try(t)
    if t.expiry > 0 then unexpire[#unexpire + 1] = g.id end
    paid[g.queue] = (paid[g.queue] or 0) + 1
    vt = g.start
    list.last = math.max(list.last, slot)
  end
  write('ZREM', K.expires, unexpire)
  write('HSET', K.tries, tries)
  write('ZADD', K.leased, leased)
  charge_tenants(paid, vt)
  return out
end

-- tenants_of names the tenants of a choice; of an empty one, those without jobs
-- that stand where the next should.
local function tenants_of(chosen)
  local seen = {}
  for _, c in ipairs(chosen) do seen[c.tenant] = true end
  if #chosen == 0 then for _, tenant in ipairs(call('ZRANGE', K.tenants, 0, 99)) do seen[tenant] = true end end
  return seen
end

-- short_of_senders says whether that matters: what is granted may last until senders come back.
local function short_of_senders(list, now)
  return earliest(list, now + A.lead) > now + A.horizon / 2 and 'slot' or 'senders'
end

local function lease(list, now, raw)
  if A.want <= 0 then return {}, A.short == 1 and short_of_senders(list, now) or 'none' end
  local room = C.cap - size_of(K.leased)
  if room <= 0 then return {}, 'cap' end
  if size_of(K.tenants) == 0 then return {}, 'empty' end
  local from, probing, failed = sends_from(now), is_probing()
  if not from or from > now + A.horizon then return {}, 'held' end
  local before, want, lead = snapshot(list), probing and 1 or math.min(A.want, room), math.max(A.lead, from - now)
  local slots = grant(list, now, want, lead)
  local chosen = choose(#slots)
  if #slots > 0 and probing then chosen = choose_probe(failed) end
  local n, carry = affordable(chosen)
  if #slots == 0 then return {}, 'slot' end
  if carry > 0 and slots[1] < now + lead + carry then
    restore(list, before)
    slots = grant(list, now, n, math.min(lead + carry, MAX_HORIZON))
    n = math.min(n, #slots)
    if n == 0 then return {}, 'slot' end
  end
  local good, members, b = sort_out(chosen, n, function(i) return raw + slots[i] - now end, raw)
  write('ZREM', K.ready, members)
  if b then flush(b, raw) end
  if #good < #slots then regrant(list, before, slots, #good) end
  local out = grant_jobs(good, slots, list)
  if #good < n or n == 0 then drop_dry(tenants_of(chosen)) end
  if probing and #out > 0 then send_probe(out[1][1]) return out, 'held' end
  if n < #chosen or #good < n then return out, 'more' end
  if #chosen < #slots then return out, 'empty' end
  if #slots < want then return out, 'slot' end
  if want == room then return out, 'cap' end
  return out, A.short == 1 and short_of_senders(list, now) or 'more'
end
