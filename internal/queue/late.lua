-- late: results of jobs that have ended. Whoever had the lease with which a job was
-- lost may come back, and knows better than unknown or dead: recover keeps its token.

local MARKED = '^{"tk":"([^ ]+) (%d+) (%d+) (%d+) (%d+)"'

-- buried_under reads a job that ended when the lease of this token ran out: its text, state and try record;
-- of another that ended the text alone.
local function buried_under(id, token)
  local text = call('HGET', K.deadjobs, id)
  local state, length, from = string.match(text or '', '^(%a+)|%d+|[^|]*|(%d+)|()')
  if not from then return text end
  local note = string.sub(text, from, from + tonumber(length) - 1)
  local lost, sent, used, crashes, first = string.match(note, MARKED)
  local env = string.sub(text, from + #note)
  local t = lost == token and parse_header(env)
  if not t then return text end
  t.sent, t.used, t.crashes, t.first = tonumber(sent), tonumber(used), tonumber(crashes), tonumber(first)
  t.history, t.env = note, env
  return text, state, t
end

-- revive brings an unknown job back that was not sent, or was refused before its work, if there is room.
local function revive(r, t, now, raw)
  if t.expiry > 0 and t.expiry <= raw or call('HLEN', K.jobs) >= C.capacity or S.bytes + t.size > C.max_bytes then return false end
  if r.kind == 'release' then t.sent, t.crashes = t.sent - 1, t.crashes - 1
  else t.used, t.history = t.used + (r.counts == '1' and 1 or 0), r.note end
  call('HSET', K.jobs, r.id, t.env)
  call('HSET', K.tries, r.id, format_try(t))
  call('HINCRBY', K.tenantjobs, t.tenant, 1)
  bump('bytes', t.size)
  if t.expiry > 0 then write('ZADD', K.expires, {int(t.expiry), r.id}) end
  if r.delay > 0 then write('ZADD', K.waiting, {int(now + r.delay), r.id}) else put_ready({{id = r.id, t = t}}) end
  return true
end

-- settle_missing takes the result of a job that is not live.
local function settle_missing(r, b, now, raw)
  local done = call('HGET', K.done, r.id)
  if done and r.kind == 'delivered' and string.sub(done, 1, 10) == 'cancelled|' then
    local text = 'delivered|' .. int(raw) .. '|' .. r.outcome .. '|' .. r.note
    call('HSET', K.done, r.id, text)
    bump('hist', #text - #done)
    return 'ok'
  end
  if done then return 'again' end
  local text, state, t = buried_under(r.id, r.token)
  if not text then return 'gone' end
  if not state or r.kind == 'unknown' or r.kind == 'doubt' or state == 'dead' and r.kind ~= 'delivered' then return 'again' end
  if r.kind == 'delivered' then finish(b, r.id, t, 'delivered', r.outcome, r.note, raw)
  elseif r.kind == 'dead' then bury(b, r.id, 'dead', r.outcome, r.note, raw, t.env)
  elseif not revive(r, t, now, raw) then return 'again' end
  unbury(b, r.id, text)
  return 'ok'
end
