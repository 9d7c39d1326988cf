-- act: one job at a time; what is to be written is gathered in a batch and in w.
local MARK = '^(%a+)|(%d+)|[^|]*|' -- state and end of what is kept of an ended job

local function new_work(now)
  return {b = new_batch(), jobs = {}, tries = {}, ready = {}, expires = {}, tenants = {}, size = 0,
    erase_dead = {}, erase_done = {}, order = math.max(now, S.order), depth = call('HLEN', K.jobs),
    capacity = math.max(1, math.floor(C.capacity * A.fill / 100)), max_bytes = math.floor(C.max_bytes * A.fill / 100)}
end

-- elsewhere is the verdict on a job that is not where the verb looks for it.
local function elsewhere(id)
  if call('ZSCORE', K.leased, id) then return 'in_flight' end
  if call('HEXISTS', K.jobs, id) == 1 then return 'live' end
  if call('HEXISTS', K.done, id) == 1 or call('HEXISTS', K.deadjobs, id) == 1 then return 'finished' end
  return 'gone'
end

local function cancel(j, w, raw)
  if call('HEXISTS', K.jobs, j.id) == 0 then
    return string.sub(call('HGET', K.done, j.id) or '', 1, 10) == 'cancelled|' and 'again' or elsewhere(j.id)
  end
  if call('ZSCORE', K.leased, j.id) then return 'in_flight' end
  local t = tries_of({j.id})[1] or parse_header(call('HGET', K.jobs, j.id))
  if not t then return 'unreadable' end
  if t.started == 2 then return 'in_flight' end -- it may have arrived
  if int(t.sent) ~= j.mark then return 'changed' end
  leave(w.b, j.id, t, call('ZSCORE', K.waiting, j.id) and 'waiting' or 'ready')
  finish(w.b, j.id, t, 'cancelled', 'cancelled', j.note, raw)
  return 'ok'
end

-- buried reads a dead or unknown job as the caller knows it: {text, state, envelope, header}, or a verdict.
local function buried(j)
  local text = call('HGET', K.deadjobs, j.id)
  if not text then return nil, elsewhere(j.id) end
  local state, at = string.match(text, MARK)
  if not state or at ~= j.mark then return nil, 'changed' end
  local _, _, length, note = string.match(text, MARK .. '(%d+)|()')
  local env = note and string.sub(text, note + tonumber(length))
  return {text = text, state = state, env = env, t = parse_header(env)}
end

-- redrive sends a job to the end of the queue, as if it were pushed now.
local function redrive(j, w, raw)
  local d, verdict = buried(j)
  if not d then return (verdict == 'live' or verdict == 'in_flight') and 'again' or verdict end
  local t = d.t
  if not t or #d.env ~= string.find(d.env, '%z') + t.size then return 'unreadable' end
  if t.expiry > 0 and t.expiry <= raw then return 'expired' end
  if t.size > C.max_bytes then return 'too_large' end
  if w.depth >= w.capacity then return 'full' end
  if S.bytes + w.size + t.size > (w.depth == 0 and C.max_bytes or w.max_bytes) then return 'bytes_full' end
  t.order = hex14(w.order + (tonumber(string.sub(d.env, 2, 2)) or 0) * C.aging)
  t.sent, t.history = tonumber(j.sent), j.note
  w.order, w.depth, w.size = w.order + 1, w.depth + 1, w.size + t.size
  w.tenants[t.tenant] = (w.tenants[t.tenant] or 0) + 1
  w.jobs[#w.jobs + 1] = j.id ; w.jobs[#w.jobs + 1] = string.sub(d.env, 1, 2) .. t.order .. string.sub(d.env, 17)
  w.tries[#w.tries + 1] = j.id ; w.tries[#w.tries + 1] = format_try(t)
  if t.expiry > 0 then w.expires[#w.expires + 1] = int(t.expiry) ; w.expires[#w.expires + 1] = j.id end
  w.ready[#w.ready + 1] = {id = j.id, t = t}
  unbury(w.b, j.id, d.text)
  return 'ok'
end

-- deliver says of an unknown job that it arrived.
local function deliver(j, w, raw)
  local d, verdict = buried(j)
  if not d then return verdict end
  if d.state ~= 'unknown' then return 'not_unknown' end
  finish(w.b, j.id, d.t or {key = NO_KEY}, 'delivered', 'resolved', j.note, raw)
  unbury(w.b, j.id, d.text)
  return 'ok'
end

local function erase(j, w)
  local text, done = call('HGET', K.deadjobs, j.id), call('HGET', K.done, j.id)
  local _, at = string.match(text or done or '', MARK)
  if not at then return elsewhere(j.id) end
  if at ~= j.mark then return 'changed' end
  local list = text and w.erase_dead or w.erase_done
  list[#list + 1] = j.id
  return 'ok'
end
