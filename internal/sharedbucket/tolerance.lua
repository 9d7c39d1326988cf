-- tolerance: how late a slot may be used, and for how long that keeps later ones apart.
local MAX_TOLERANCE = 1000000 -- µs
-- A slot may lie MAX_HORIZON ahead and be used MAX_TOLERANCE late: for so long
-- beyond a window its tolerance keeps later slots apart.
local MEMORY = 1400000 -- µs
local MOST_LATE = 0.015 -- of the shortest window: what lateness of a worker may cost of the rate

-- track keeps the largest value of the present and the previous window, saved as cur:prev:since.
-- Only a turn, which knows what time to expect, moves it on (A.turns): another
-- call may see a step of the clock before it is mended, and would forget too early.
local function track(saved, want, now, window)
  local cur, prev, since = string.match(saved or '', '^(%d+):(%d+):(%d+)$')
  if cur and not A.turns then return math.min(MAX_TOLERANCE, math.max(tonumber(cur), tonumber(prev), want)), saved end
  if not cur then cur, prev, since = want, 0, now
  else
    cur, prev, since = math.min(MAX_TOLERANCE, tonumber(cur)), math.min(MAX_TOLERANCE, tonumber(prev)), math.min(tonumber(since), now)
    if now >= since + window then
      prev = (now >= since + 2 * window) and 0 or cur
      cur, since = want, now
    else cur = math.max(cur, want) end
  end
  return math.max(cur, prev), int(cur) .. ':' .. int(prev) .. ':' .. int(since)
end

-- needed is the tolerance that the caller needs: what the contract gives, or the
-- width of its bounds and what its writes are late by, if it says so in A.late.
local function needed(short)
  local late = math.max(2000, math.min(A.late or 0, math.floor(short * MOST_LATE)))
  return math.min(MAX_TOLERANCE, math.max(C.guard_us, A.width + late))
end

-- remembered is the largest tolerance of a tracked one, while that counts; 0: none.
local function remembered(field, span, now)
  local cur, prev, since = string.match(call('HGET', K.state, field) or '', '^(%d+):(%d+):(%d+)$')
  return cur and now < tonumber(since) + span and math.min(MAX_TOLERANCE, math.max(tonumber(cur), tonumber(prev))) or 0
end

-- known is what is remembered of a limit's tolerance, by its own name.
local function known(l, now) return remembered('t:' .. l.name, 2 * (l.window + MEMORY), now) end

-- widest is the largest tolerance that slots granted under limits may have.
local function widest(list, now)
  local most = 0
  for _, l in ipairs(list) do most = math.max(most, known(l, now)) end
  return most
end

-- inherit has limits that the list before did not have, or no list before, space their
-- slots by what is remembered of those granted then: a limit may only have got another name.
local function inherit(list, old, now)
  local had, most = {}, widest(old or {}, now)
  for _, l in ipairs(old or {}) do had[l.name] = true end
  for _, l in ipairs(list) do
    local t = math.max(old and most or remembered('tol', l.window + MEMORY, now), known(l, now))
    if t > 0 and not had[l.name] and not l.scale then
      local field, text = 't:' .. l.name, int(t) .. ':0:' .. int(now)
      call('HSET', K.state, field, text)
      S[field] = text
    end
  end
end
