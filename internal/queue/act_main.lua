-- act, the main part.
local COUNTED = {expired = true, unreadable = true, too_large = true} -- verdicts for which an operation cannot do it
local KEPT_FOR = 2592000000 -- ms for which an operation is kept that nobody goes on with

local function write_work(w, raw)
  drop_dead(w.erase_dead, raw)
  drop_done(w.erase_done)
  flush(w.b, raw)
  write('HSET', K.jobs, w.jobs)
  write('HSET', K.tries, w.tries)
  write('ZADD', K.expires, w.expires)
  put_ready(w.ready)
  for tenant, n in pairs(w.tenants) do call('HINCRBY', K.tenantjobs, tenant, n) end
  bump('bytes', w.size)
  if #w.jobs > 0 then W.order = int(w.order) end
end

local VERBS = {cancel = cancel, redrive = redrive, deliver = deliver, erase = erase}

-- do_all answers the verdicts and how many jobs were decided on: a full queue ends it.
local function do_all(jobs, w, raw)
  local verdicts, seen, decided = {}, {}, #jobs
  for i, j in ipairs(jobs) do
    local v = decided < #jobs and verdicts[i - 1] or seen[j.id] and 'again' or VERBS[A.verb](j, w, raw)
    if decided == #jobs and (v == 'full' or v == 'bytes_full') then decided = i - 1 end
    verdicts[i], seen[j.id] = v, true
  end
  return verdicts, decided
end

-- note_step writes how far the operation has come, in the same step in which it came there.
local function note_step(key, jobs, verdicts, decided, raw)
  local last, whole = jobs[decided], decided == #jobs
  local state, cursor, seen = A.state, A.to, A.seen
  if not whole then state, cursor, seen = 'waiting', last and last.cursor or A.from, last and last.seen or 0 end
  local ok, failed = 0, 0
  for i = 1, decided do
    if verdicts[i] == 'ok' then ok = ok + 1 end
    if COUNTED[verdicts[i]] then failed = failed + 1 ; call('HINCRBY', key, 'failed:' .. verdicts[i], 1) end
  end
  call('HSET', key, 'cursor', cursor, 'state', state, 'beat', int(raw))
  for name, n in pairs({seen = seen, matched = whole and A.matched or decided, done = ok, failed = failed}) do
    if n > 0 then call('HINCRBY', key, name, n) end
  end
  call('PEXPIRE', key, KEPT_FOR)
end

local function act()
  local now, raw = read_clock()
  local status = load_contract()
  if status ~= 'ok' then return {status} end
  local key = A.step and KEYS[#KEYS]
  if key then
    local o = call('HMGET', key, 'cursor', 'state', 'cancel', 'gen')
    if o[4] and o[4] ~= int(C.gen) then return {'deleted'} end
    if o[3] == '1' then return {'cancelled'} end
    if o[1] ~= A.from or o[2] == 'done' or o[2] == 'cancelled' or o[2] == 'failed' then return {'moved'} end
  end
  work_when_full()
  load_state()
  open_limits(C.list, now)
  local jobs = {}
  for p = A.jobs, #ARGV, 6 do
    jobs[#jobs + 1] = {id = ARGV[p], mark = ARGV[p + 1], sent = ARGV[p + 2], note = ARGV[p + 3], cursor = ARGV[p + 4],
      seen = tonumber(ARGV[p + 5])}
  end
  local w = new_work(now)
  local verdicts, decided = do_all(jobs, w, raw)
  write_work(w, raw)
  trim_after(raw)
  if key then note_step(key, jobs, verdicts, decided, raw) end
  local paused = is_paused()
  if #w.jobs > 0 then plan_earlier(next_look(C.list, now, raw, paused, 'empty'), now) end
  save_state()
  return {'ok', verdicts, paused and '30000000' or int(math.max(0, earliest(C.list, now + A.lead) - now)), counted}
end

return act()
