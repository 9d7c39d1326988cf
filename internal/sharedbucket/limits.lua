-- limits: the list of a lane's limits and the slot that all of them allow.
-- An algorithm is {load, save, lost, earliest, charge, refund, after}; a state is a small table.
local MAX_TOLERANCE = 1000000 -- µs

-- track keeps the largest tolerance of the present and the previous window.
-- Saved as cur:prev:since. A slot's neighbours must be spaced by the tolerance
-- under which either was granted.
local function track(saved, want, now, window)
  local cur, prev, since = string.match(saved or '', '^(%d+):(%d+):(%d+)$')
  if not cur then cur, prev, since = want, 0, now
  else
    cur, prev, since = tonumber(cur), tonumber(prev), tonumber(since)
    if now >= since + window then
      prev = (now >= since + 2 * window) and 0 or cur
      cur, since = want, now
    else cur = math.max(cur, want) end
  end
  return math.max(cur, prev), int(cur) .. ':' .. int(prev) .. ':' .. int(since)
end

-- parse_limits reads "name,algorithm,rate,window µs,burst;" …; nil when damaged.
local function parse_limits(text)
  local list = {}
  for name, algo, rate, window, burst in string.gmatch(text or '', '([^,;]+),([%a_]+),(%d+),(%d+),(%d+);') do
    local l = {name = name, algo = algorithms[algo], rate = tonumber(rate), window = tonumber(window), burst = tonumber(burst)}
    if not l.algo or l.rate <= 0 or l.window <= 0 or l.burst <= 0 then return nil end
    list[#list + 1] = l
  end
  if #list == 0 or #list > 8 then return nil end
  return list
end

-- open_limits loads the state of each limit. The lane has one tolerance: that
-- of its shortest window; each limit then keeps it for its own window.
local function open_limits(list, now)
  local names, saved = {'last'}, {}
  local short = list[1]
  for _, l in ipairs(list) do
    names[#names + 1] = 'l:' .. l.name ; names[#names + 1] = 't:' .. l.name
    if l.window < short.window then short = l end
  end
  fields(K.state, names, saved)
  local last = tonumber(saved.last or '0') or 0
  local want = math.min(MAX_TOLERANCE, math.max(C.guard_us, A.width + 2000))
  list.tolerance = track(saved['t:' .. short.name], want, now, short.window)
  for _, l in ipairs(list) do
    local tol, text = track(saved['t:' .. l.name], list.tolerance, now, l.window)
    if text ~= saved['t:' .. l.name] then W['t:' .. l.name] = text end
    l.n = l.window + tol
    l.state = l.algo.load(l, saved['l:' .. l.name], last)
  end
  list.last = last
end

-- earliest is the first time from t on that every limit allows.
local function earliest(list, t)
  local moved = true
  while moved do
    moved = false
    for _, l in ipairs(list) do
      local e = l.algo.earliest(l, l.state, t)
      if e > t then t, moved = e, true end
    end
  end
  return t
end
