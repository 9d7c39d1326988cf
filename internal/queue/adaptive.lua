-- adaptive: a rate that follows what the destination can take. It is cut when an
-- attempt fails, is throttled or slow, and raised step by step while it is well.
-- State adapt: share|mode|since. share: of the limit that sets the pace, in ppm. mode: slow
-- while it doubles after an outage, else steady. What was sent in slots before since tells nothing.
local WHOLE, CUT, RAISE = 1000000, 0.5, 50000
local ROUND = 1000000 -- µs between raises

-- read_adaptive answers {floor, share, mode, since}; nil when the contract has a fixed rate.
local function read_adaptive()
  local floor = finite(C.adaptive)
  if not floor then return nil end
  local share, mode, since = string.match(S.adapt or '', '^(%d+)|(%a+)|(%d+)$')
  share = math.max(floor, math.min(WHOLE, finite(share) or WHOLE)) -- another contract may have left less
  return {floor = floor, share = share, mode = mode or 'steady', since = finite(since) or 0}
end

local function set_share(a, share, mode, since)
  share = math.floor(math.max(a.floor, math.min(WHOLE, share)))
  S.adapt = int(share) .. '|' .. mode .. '|' .. int(since)
  W.adapt = S.adapt
end

-- adapt takes in how an attempt in a slot went.
local function adapt(well, slot, now)
  local a = read_adaptive()
  if not a or slot < a.since then return end
  -- Slots that were granted at the old rate are no answer to the new one.
  if not well then set_share(a, a.share * CUT, 'steady', math.max(now, C.list.last or 0) + 1)
  elseif a.share < WHOLE and slot >= a.since + ROUND then
    set_share(a, a.mode == 'slow' and a.share * 2 or a.share + RAISE, a.mode, slot)
  end
end

-- start_slowly begins again at the floor, when an outage is over.
local function start_slowly(now)
  local a = read_adaptive()
  if a then set_share(a, a.floor, 'slow', now) end
end

-- paces says that a limit sets the pace rather than another: a leaky bucket spaces
-- requests out, a token bucket bounds an average; of two alike the tighter one.
local function paces(l, other)
  local spaces, spaced = l.algo == algorithms.leaky_bucket, other.algo == algorithms.leaky_bucket
  if spaces ~= spaced then return spaces end
  return l.rate / l.window < other.rate / other.window
end

-- follow adds the adapted rate to the limits, as one more of them: a share of the
-- one that sets the pace, in thousandths of a request.
local function follow(list)
  local a = S.adapt and S.adapt ~= '' and read_adaptive()
  if not a or a.share >= WHOLE then return nil end
  local pace = list[1]
  for _, l in ipairs(list) do if paces(l, pace) then pace = l end end
  list[#list + 1] = {name = 'adaptive', algo = algorithms.leaky_bucket, rate = math.max(1, math.floor(pace.rate * a.share / 1000)),
    window = pace.window, scale = 1000, burst = 1}
  return pace
end

-- follow_news lets an open list follow at once what this call has learnt.
local function follow_news(list)
  if not W.adapt then return end
  if list[#list].scale then list[#list] = nil end
  local pace, l = follow(list), list[#list]
  if pace then l.n, l.state = pace.n * l.scale, {last = list.last, rem = 0} end
end
