-- late: results of jobs that are live no more.
-- unbury ends as delivered a job that was given up because its worker was lost.
-- Whichever of its attempts the answer belongs to: the job is done, and whoever
-- redrives it for want of that knowledge has it done twice.
local function unbury(id, text, outcome, note, raw)
  local length, at = string.match(text, '^%a+|%d+|worker_crashed|(%d+)|()')
  if not length then return false end
  local b = new_batch()
  finish(b, id, parse_header(string.sub(text, at + tonumber(length))) or {key = NO_KEY}, 'delivered', outcome, note, raw)
  call('HDEL', K.deadjobs, id)
  call('ZREM', K.dead, id)
  record(b, raw)
  bump('deadbytes', -#text)
  return true
end

local function settle_missing(id, kind, outcome, note, raw)
  local done, dead = call('HGET', K.done, id), call('HGET', K.deadjobs, id)
  if done and kind == 'delivered' and string.sub(done, 1, 10) == 'cancelled|' then
    local text = 'delivered|' .. int(raw) .. '|' .. outcome .. '|' .. note
    call('HSET', K.done, id, text)
    bump('hist', #text - #done)
    return 'ok'
  end
  if dead and kind == 'delivered' and unbury(id, dead, outcome, note, raw) then return 'ok' end
  return (done or dead) and 'again' or 'gone'
end
