-- turn, the main part.
local LATE = 5000000 -- µs by which a look may be late before leases are given more time

-- memory_lost says whether state may be older than what was granted.
local function memory_lost(srv, list)
  if S.srv ~= srv then W.srv = srv return true end
  return A.mylast > list.last
end

-- spare_leases puts off recovery when the lane was not looked at, or its server changed.
local function spare_leases(now, lost, list)
  if not lost and not (S.planned and now > S.planned + LATE) then return end
  if size_of(K.leased) == 0 then return end
  S.norecover = now + C.timeout + list.tolerance + 5000000
  W.norecover = int(S.norecover)
end

-- holder names the limit whose next slot is furthest off.
local function holder(list, t)
  local furthest, name = t, ''
  for _, l in ipairs(list) do
    local e = l.algo.earliest(l, l.state, t)
    if e > furthest then furthest, name = e, l.name end
  end
  return size_of(K.tenants) > 0 and name or ''
end

local function turn()
  local now, raw, adj, stepped = read_clock()
  if not now then return {'clock', int(raw + adj), int(adj)} end
  work_when_full()
  local status = load_contract()
  if status == 'faulty' then
    call('ZADD', K.due, int(now + 60000000), A.lane)
    return {status, {}}
  end
  if status == 'no_lane' then
    call('ZREM', K.due, A.lane)
    load_state()
    local results = settle(now, raw)
    if W.hist then save_state() end
    return {status, results}
  end
  load_state()
  local list = C.list
  open_limits(list, now)
  -- No slot is granted further ahead: the clock went back while nobody could tell.
  local back = list.last - now - MAX_HORIZON
  if back > STEP then
    call('HINCRBY', K.clock, 'adj', int(back)) ; call('HINCRBY', K.clock, 'steps', 1)
    now, adj, stepped = now + back, adj + back, true
    open_limits(list, now)
  end
  -- One that only settles grants nothing and need not know.
  local looks = A.want > 0 or A.short == 1
  local lost = looks and memory_lost(identity(), list)
  if lost then
    forget_slots(list, math.max(now, A.mylast - MAX_HORIZON))
    count('state_lost', 1)
  end
  spare_leases(now, lost, list)
  local results = settle(now, raw, list)
  follow_news(list)
  take_back(list)
  recover(now, raw)
  promote(now, raw)
  local expired = expire(raw)
  local paused, leases, why = is_paused(), {}, 'paused'
  if not paused then leases, why = lease(list, now, raw) end
  trim_after(raw)
  save_limits(list)
  local look = next_look(list, now, raw, paused, why)
  if expired == MANY then look = now end
  if looks then plan_turn(look, A.keep and why ~= 'senders') else plan_earlier(look, now) end
  if #leases > 0 then bump('granted', #leases) end
  local held = why == 'slot' and holder(list, now + A.lead) or ''
  save_state()
  return {'ok', int(now), int(adj), stepped and 1 or 0, lost and 1 or 0, int(S.epoch), int(C.version), int(C.gen),
    int(list.tolerance), int(C.timeout), look and int(look) or '', why, results, leases, held, counted}
end

return turn()
