-- recover: leases that ran out, and those whose worker never heard of them.
local MAX_CRASHES = 3 -- act.go holds the same figure
local MANY = 100

-- back_to_ready ends the lease of jobs, {id, t} each, at their old place.
local function back_to_ready(jobs)
  local ids, tries, expires = {}, {}, {}
  for _, j in ipairs(jobs) do
    ids[#ids + 1] = j.id
    tries[#tries + 1] = j.id ; tries[#tries + 1] = format_try(j.t)
    if j.t.expiry > 0 then expires[#expires + 1] = int(j.t.expiry) ; expires[#expires + 1] = j.id end
  end
  write('ZREM', K.leased, ids)
  write('HSET', K.tries, tries)
  write('ZADD', K.expires, expires)
  put_ready(jobs)
end

-- held_or_bury reads what is known of a job; nil when that cannot be read or its body is gone.
local function held_or_bury(b, id, t, raw)
  if t and call('HEXISTS', K.jobs, id) == 1 then return t end
  local env = call('HGET', K.jobs, id)
  local read = parse_header(env)
  if not read then bury_unreadable(b, id, env, t or {}, raw) end
  return read
end

-- with_token puts the token of a lost lease, and what was known of its job, in
-- front of a note, for a late result.
local function with_token(t)
  return string.format('{"tk":"%s %s %s %s %s"', t.token, int(t.sent), int(t.used), int(t.crashes), int(t.first))
    .. (#t.history > 2 and ',' .. string.sub(t.history, 2) or '}')
end

-- recover brings back leases whose deadline passed. The token stays: a late
-- 'delivered' is believed while nobody else holds the job.
local function recover(now, raw)
  if now < S.norecover then return end
  local ids = due(K.leased, now, MANY)
  if #ids == 0 then return end
  local tries, back, b = tries_of(ids), {}, new_batch()
  for i, id in ipairs(ids) do
    if b.deadbytes > MOST_BYTES then break end -- the rest is due at once
    local t = held_or_bury(b, id, tries[i], raw)
    if t then
      t.sent, t.crashes = t.sent + 1, t.crashes + ((t.crashes == 0 or t.started == 1) and 1 or 0)
      if t.first == 0 then t.first = t.slot end
      -- At most once: what had started may have left, and is not sent again, unless the destination can be asked.
      local doubt = C.delivery == 'at_most_once' and t.started > 0
      local ends = doubt and (C.verify ~= '1' or t.crashes >= MAX_CRASHES) and 'unknown' or t.crashes >= MAX_CRASHES and 'dead'
      t.started = doubt and 2 or 0
      if ends then
        leave(b, id, t, 'leased')
        tell(b, 'ended_' .. ends)
        bury(b, id, ends, 'worker_crashed', with_token(t), raw, call('HGET', K.jobs, id) or '')
      else back[#back + 1] = {id = id, t = t} end
    end
  end
  flush(b, raw)
  count('crashes', #back)
  back_to_ready(back)
end

-- take_back releases, uncounted, what a call granted whose reply was lost; its
-- worker never saw the slots. A.lost is "call,first deadline,last deadline;" …
local function take_back(list)
  local back, paid = {}, {}
  for number, from, to in string.gmatch(A.lost, '(%d+),(%d+),(%d+);') do
    local prefix = A.worker .. ':' .. number .. ':'
    for page = 0, 9 do
      local ids = call('ZRANGEBYSCORE', K.leased, from, to, 'LIMIT', page * MANY, MANY)
      for i, rec in ipairs(#ids > 0 and call('HMGET', K.tries, unpack(ids)) or {}) do
        local t = rec and string.sub(rec, 1, #prefix) == prefix and parse_try(rec)
        if t then
          each_limit(list, 'refund', t.slot)
          paid[t.tenant] = (paid[t.tenant] or 0) + 1
          t.token = '' ; back[#back + 1] = {id = ids[i], t = t}
        end
      end
      if #ids < MANY then break end
    end
  end
  if #back > 0 then back_to_ready(back) ; give_back(paid) end
end
