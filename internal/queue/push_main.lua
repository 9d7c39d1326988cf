-- push, storing what was accepted.
local function accept(j, q, w, now)
  j.t.order = hex14(w.order + j.prio * C.aging)
  w.order = w.order + 1
  q.depth, q.bytes = q.depth + 1, q.bytes + j.t.size
  q.count[j.t.tenant] = q.own(j.t.tenant) + 1
  w.tenants[j.t.tenant] = (w.tenants[j.t.tenant] or 0) + 1
  w.size = w.size + j.t.size
  w.jobs[#w.jobs + 1] = j.id ; w.jobs[#w.jobs + 1] = envelope(j)
  local state = j.delay > 0 and 'scheduled' or 'ready'
  if state == 'scheduled' then w.waiting[#w.waiting + 1] = int(now + j.delay) ; w.waiting[#w.waiting + 1] = j.id
  else w.ready[#w.ready + 1] = {id = j.id, t = j.t} ; q.ready = q.ready + 1 end
  if j.t.expiry > 0 then w.expires[#w.expires + 1] = int(j.t.expiry) ; w.expires[#w.expires + 1] = j.id end
  if j.t.expiry > 0 or state == 'scheduled' then w.tries[#w.tries + 1] = j.id ; w.tries[#w.tries + 1] = format_try(j.t) end
  if j.key ~= NO_KEY then w.keys[#w.keys + 1] = j.key ; w.keys[#w.keys + 1] = j.id .. j.print end
  q.added[j.id] = state
  return state
end

local function store(w)
  write('HSET', K.jobs, w.jobs)
  write('HSET', K.tries, w.tries)
  write('ZADD', K.waiting, w.waiting)
  write('ZADD', K.expires, w.expires)
  put_ready(w.ready)
  for tenant, n in pairs(w.tenants) do call('HINCRBY', K.tenantjobs, tenant, n) end
  bump('hist', -230 * save_keys(w.keys))
  bump('bytes', w.size)
  W.order = int(w.order)
  bump('accepted', #w.jobs / 2)
end

local PROBE = 1000000 -- µs that an answer to a probe is taken to need

-- next_place is how long until a place can be free: not while nothing goes out.
local function next_place(list, now, paused)
  if paused then return 30000000 end
  local wait = earliest(list, math.max(now + A.lead, sends_from(now) or now + PROBE)) - now
  if size_of(K.tenants) > 0 or size_of(K.leased) > 0 then return wait end
  return math.max(wait, (first_score(K.waiting) or now) - now)
end

local function push()
  local now, raw = read_clock()
  local status = load_contract()
  if status ~= 'ok' then return {status} end
  -- Does nothing, but a full server refuses it: behind the trimming it would take the jobs.
  call('ZADD', K.due, 'XX', 0, '')
  load_state()
  if is_marked() then return {'faulty'} end
  local paused, probing, list, rate = is_paused(), (is_probing()), C.list, nil
  if paused and C.when_paused == 'refuse' then return {'paused'} end
  open_limits(list, now)
  for _, l in ipairs(list) do rate = math.min(rate or math.huge, l.rate * 1000000 / l.n) end
  local hashes, jobs, replies, size = {}, {}, {}, 0
  for i = 1, A.n do
    jobs[i] = read_job(i, raw)
    size = size + jobs[i].t.size
    if jobs[i].key ~= NO_KEY then hashes[#hashes + 1] = jobs[i].key end
  end
  local q = open_queue(raw, size)
  trim_after(raw)
  local known, ids = load_keys(hashes, raw), known_ids(jobs, q.depth)
  local w = {jobs = {}, tries = {}, waiting = {}, expires = {}, ready = {}, keys = {}, tenants = {}, size = 0,
    order = math.max(now, S.order)}
  for i, j in ipairs(jobs) do
    local v, id, state = verdict(j, q, known, ids)
    local when, wait = '', 0
    if not v then
      if not paused and not probing then when = estimate(list, now + math.max(0, j.delay), raw + math.max(0, j.delay), q.ready, q.own(j.t.tenant), q.tenants) end
      v, id, state = 'accepted', j.id, accept(j, q, w, now)
      if j.key ~= NO_KEY then known[j.key] = {id = j.id, print = j.print, state = ''} end
    elseif not id then wait = next_place(list, now, paused) end
    replies[i] = {v, id or '', state or '', int(q.depth), when, int(wait)}
  end
  if #w.jobs > 0 then
    store(w)
    plan_earlier(next_look(list, now, raw, paused, 'empty'), now)
  end
  save_state()
  return {'ok', int(C.capacity), real(rate), paused and 1 or 0, replies, counted}
end

return push()
