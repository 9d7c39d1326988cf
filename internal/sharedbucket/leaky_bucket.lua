-- leaky_bucket: one slot every n/rate µs, exact: the last slot is last + rem/rate µs.
-- State: last:rem:rate. n is the window plus the tolerance, in µs.
local function leaky_next(l, st)
  local last, rem = st.last + math.floor(l.n / l.rate), st.rem + l.n % l.rate
  if rem >= l.rate then return last + 1, rem - l.rate end
  return last, rem
end

algorithms.leaky_bucket = {
  load = function(l, s, last)
    local a, b, rate = string.match(s or '', '^(%d+):(%d+):(%d+)$')
    if not a or tonumber(a) + (b ~= '0' and 1 or 0) < last then return {last = last, rem = 0} end
    if tonumber(rate) ~= l.rate and b ~= '0' then return {last = tonumber(a) + 1, rem = 0} end
    return {last = tonumber(a), rem = tonumber(b)}
  end,
  save = function(l, st) return int(st.last) .. ':' .. int(st.rem) .. ':' .. int(l.rate) end,
  -- lost: nothing is known before t but that a slot may have been granted at t.
  lost = function(l, st, t) if t > st.last then st.last, st.rem = t, 0 end end,
  earliest = function(l, st, t)
    local last, rem = leaky_next(l, st)
    if rem > 0 then last = last + 1 end
    return math.max(t, last)
  end,
  charge = function(l, st, t)
    local last, rem = leaky_next(l, st)
    if t > last + (rem > 0 and 1 or 0) then last, rem = t, 0 end
    st.last, st.rem = last, rem
  end,
  refund = function() end,
  -- after is when the slot behind k others comes, from t on.
  after = function(l, st, t, k)
    local first = algorithms.leaky_bucket.earliest(l, st, t)
    return first + math.ceil(l.n / l.rate * k)
  end,
}
