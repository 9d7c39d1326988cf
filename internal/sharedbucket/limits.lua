-- limits: the list of a lane's limits and the slot that all of them allow.
-- An algorithm is {load, save, lost, earliest, charge, refund, after}; a state is a small table.
-- A limit with a scale counts in that part of a request.

-- parse_limits reads "name,algorithm,rate,window µs,burst;" …; nil when any of it is damaged.
local function parse_limits(text)
  local list, read = {}, 0
  for whole, name, algo, rate, window, burst in string.gmatch(text or '', '(([^,;]+),([%a_]+),(%d+),(%d+),(%d+);)') do
    local l = {name = name, algo = algorithms[algo], rate = tonumber(rate), window = tonumber(window), burst = tonumber(burst)}
    if not l.algo or l.rate <= 0 or l.window <= 0 or l.burst <= 0 then return nil end
    list[#list + 1], read = l, read + #whole
  end
  if #list == 0 or #list > 8 or read ~= #text then return nil end
  return list
end

-- limit_fields names what the state holds of the limits.
local function limit_fields(list)
  local names = {'last', 'tol'}
  for _, l in ipairs(list) do names[#names + 1] = 'l:' .. l.name ; names[#names + 1] = 't:' .. l.name end
  return names
end

-- open_limits loads the state of each limit, from what is read already if it is there. The lane has one tolerance, the
-- largest that callers of this and the previous of its shortest windows needed;
-- it comes back with each grant. A limit spaces its slots by the largest that
-- may still be used within its own window. A list may be opened again, at another time.
local function open_limits(list, now)
  local short, unread = list[1].window, {}
  for _, l in ipairs(list) do short = math.min(short, l.window) end
  for _, n in ipairs(limit_fields(list)) do if S[n] == nil then unread[#unread + 1] = n end end
  if #unread > 0 then fields(K.state, unread, S) end
  local function tracked(name, value, window)
    local most, text = track(S[name], value, now, window)
    W[name] = text ~= S[name] and text or nil
    return most
  end
  list.blind = not S.tol
  list.last = finite(S.last) or 0
  list.saved = list.last
  list.tolerance = tracked('tol', needed(short), short)
  local furthest = math.max(list.last, now) + MEMORY + 1 -- that a state can lie
  for _, l in ipairs(list) do
    l.n = (l.window + tracked('t:' .. l.name, list.tolerance, l.window + MEMORY)) * (l.scale or 1)
    l.saved = S['l:' .. l.name]
    l.state = l.algo.load(l, l.saved, list.last)
    if l.state.last > furthest then l.state = l.algo.load(l, nil, list.last) end -- damaged: it would hold the lane for ever
  end
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
