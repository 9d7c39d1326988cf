-- slots: granting, giving back and forecasting on an open list of limits.
local MAX_HORIZON = 400000 -- µs; no slot was ever granted further ahead

local function each_limit(list, verb, ...)
  for _, l in ipairs(list) do l.algo[verb](l, l.state, ...) end
end

local function snapshot(list)
  local copy = {}
  for i, l in ipairs(list) do
    copy[i] = {} ; for k, v in pairs(l.state) do copy[i][k] = v end
  end
  return copy
end

-- grant charges up to n slots from now + lead, by default the caller's, to now +
-- horizon and returns them.
local function grant(list, now, n, lead)
  lead = lead or A.lead
  local slots, from, to = {}, now + lead, now + math.max(A.horizon, lead)
  while #slots < n do
    local t = earliest(list, from)
    if t > to then break end
    each_limit(list, 'charge', t)
    slots[#slots + 1], from = t, t
  end
  return slots
end

-- restore takes back what was charged since a snapshot.
local function restore(list, before)
  for i, l in ipairs(list) do l.state = before[i] end
end

-- regrant charges only the first n of the slots, from a snapshot taken before grant.
local function regrant(list, before, slots, n)
  restore(list, before)
  for i = 1, n do each_limit(list, 'charge', slots[i]) end
end

-- forget_slots treats the time up to the furthest possible slot as used up. Where
-- it is not known how late that may be used, the next slots lie behind all of that.
local function forget_slots(list, now)
  each_limit(list, 'lost', now + MAX_HORIZON + (list.blind and MAX_TOLERANCE - list.tolerance or 0))
  list.last = math.max(list.last, now + MAX_HORIZON)
end

-- save_limits puts what changed of the limits' states and the last granted slot into W.
local function save_limits(list)
  for _, l in ipairs(list) do
    local text = l.algo.save(l, l.state)
    if text ~= l.saved then W['l:' .. l.name] = text end
  end
  if list.last ~= list.saved then W.last = int(list.last) end
end

-- after is when a job behind k others gets its slot, if nothing overtakes it.
local function after(list, t, k)
  local slot = t
  for _, l in ipairs(list) do slot = math.max(slot, l.algo.after(l, l.state, t, k)) end
  return slot
end
