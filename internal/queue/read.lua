-- read, the main part.
-- binds names what a ready job waits for.
local function binds(list, now, paused)
  if paused then return 'pause' end
  if is_probing() then return 'breaker' end
  if S.cool > now + A.horizon then return 'cool_down' end
  if call('ZCARD', K.leased) >= C.cap then return 'in_flight_cap' end
  if earliest(list, now + A.lead) <= now + A.horizon then return '' end
  for _, l in ipairs(list) do
    if l.algo.earliest(l, l.state, now + A.lead) > now + A.horizon then return 'limit ' .. l.name end
  end
  return ''
end

local function read_job(now, raw, faulty, paused)
  local env = call('HGET', K.jobs, A.id)
  if not env then
    local ended = call('HGET', K.done, A.id) or call('HGET', K.deadjobs, A.id)
    return ended and {string.match(ended, '^(%a+)|'), '', '', '', ended, '0', '', ''} or {}
  end
  local rec = call('HGET', K.tries, A.id) or ''
  local t = parse_try(rec) or parse_header(env)
  if not t then return {'ready', env, rec, '', '', '0', '', 'unreadable'} end
  local due = call('ZSCORE', K.waiting, A.id)
  if call('ZSCORE', K.leased, A.id) then return {'leased', env, rec, '', '', '0', int(t.slot - now + raw), ''} end
  if due then
    local at = int(tonumber(due) - now + raw)
    return {t.sent == 0 and 'scheduled' or 'waiting', env, rec, at, '', '0', paused and '' or at, t.sent == 0 and 'its_time' or 'back_off'}
  end
  local from = '[' .. t.tenant .. '\0'
  local ahead = call('ZLEXCOUNT', K.ready, from, '(' .. member(t, A.id))
  if faulty then return {'ready', env, rec, '', '', int(ahead), '', 'faulty'} end
  local tenants, when = call('ZCARD', K.tenants), ''
  local before = tenants > 1 and math.min(ahead * tenants, call('ZCARD', K.ready) - 1) or ahead
  if not paused and not is_probing() then when = int(after(C.list, math.max(now + A.lead, S.cool), before) - now + raw) end
  local why = binds(C.list, now, paused)
  if why == '' and ahead > 0 then why = 'limit ' .. C.list[1].name end
  return {'ready', env, rec, '', '', int(ahead), when, why}
end

local function read()
  local now, raw, adj = read_clock()
  local status = load_contract()
  if status == 'no_lane' then return {'no_lane'} end
  load_state()
  if is_marked() then status = 'faulty' end
  local paused = is_paused()
  if C.list then open_limits(C.list, now) end
  local job = A.id ~= '' and read_job(now, raw, status == 'faulty', paused) or {}
  local counts = {}
  for i, c in ipairs({{'HLEN', 'jobs'}, {'ZCARD', 'ready'}, {'ZCARD', 'waiting'}, {'ZCARD', 'leased'}, {'ZCARD', 'dead'},
    {'HLEN', 'idem'}, {'HLEN', 'done'}}) do counts[i] = call(c[1], K[c[2]]) end
  local pushed = pushed_at()
  counts[8] = pushed and int(pushed) or ''
  return {status, int(raw), int(adj), call('HGETALL', K.conf), call('HGETALL', K.state), counts, job}
end

return read()
