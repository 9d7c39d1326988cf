-- late: results of jobs that have ended. Whoever had the lease with which a job was
-- lost may come back, and knows better than unknown or dead: recover keeps its token.

-- buried_under reads a job that ended when the lease of this token ran out: its text, state and envelope;
-- of another that ended the text alone.
local function buried_under(id, token)
  local text = call('HGET', K.deadjobs, id)
  if not text then return nil end
  local state, length, note = string.match(text, '^(%a+)|%d+|[^|]*|(%d+)|()')
  local start = '{"tk":"' .. token .. '"'
  if not note or string.sub(text, note, note + #start - 1) ~= start then return text end
  return text, state, string.sub(text, note + tonumber(length))
end

-- settle_missing takes the result of a job that is not live.
local function settle_missing(r, b, raw)
  local done = call('HGET', K.done, r.id)
  if done and r.kind == 'delivered' and string.sub(done, 1, 10) == 'cancelled|' then
    local text = 'delivered|' .. int(raw) .. '|' .. r.outcome .. '|' .. r.note
    call('HSET', K.done, r.id, text)
    bump('hist', #text - #done)
    return 'ok'
  end
  if done then return 'again' end
  if r.kind ~= 'delivered' and r.kind ~= 'dead' then return call('HEXISTS', K.deadjobs, r.id) == 1 and 'again' or 'gone' end
  local text, state, env = buried_under(r.id, r.token)
  if not text then return 'gone' end
  if r.kind == 'delivered' and state then finish(b, r.id, parse_header(env) or {key = NO_KEY}, 'delivered', r.outcome, r.note, raw)
  elseif r.kind == 'dead' and state == 'unknown' then bury(b, r.id, 'dead', r.outcome, r.note, raw, env)
  else return 'again' end
  unbury(b, r.id, text)
  return 'ok'
end
