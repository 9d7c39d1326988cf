-- token_bucket: an average of rate per n µs, with burst tokens at most.
-- State: last:have:n:from:room. have is the tokens at the time last in units of
-- 1/n, so that rate units come in each µs and integers stay exact. Tokens stay
-- what they are when rate, window or burst change: a larger burst must be earned.
-- A slot given back must leave the bucket as if it had never been taken, also where
-- it was nearly full since: room is the least room that any charge behind the slot
-- from has met, and slots before from are not given back.
-- What came within the last µs of filling is kept: the token was there at a
-- fraction of a µs before t, and cutting that off each time would cost percents
-- of a fast rate.
local function token_have(l, st, t)
  local have, full = st.have + math.max(0, t - st.last) * l.rate, l.burst * l.n
  return have < full + l.rate and have or full
end

-- rescale turns tokens in units of 1/n into units of 1/to: exact, or off by one
-- unit where the product is more than a double holds.
local function rescale(have, n, to)
  local whole = math.floor(have / n)
  local part = have - whole * n
  return whole * to + math.floor(part * to < 4e15 and part * to / n or part / n * to)
end

algorithms.token_bucket = {
  load = function(l, s, last)
    local a, have, n, from, room = string.match(s or '', '^(%d+):(%d+):(%d+):(%d+):(%d+)$')
    -- A limit that did not see the lane's last slot, because it is new, has another
    -- name or was away, starts empty there: what it would have let through is not known.
    if not a or tonumber(a) < last then return {last = last, have = last > 0 and 0 or l.burst * l.n, from = last + 1, room = 0} end
    local st = {last = tonumber(a), have = tonumber(have), from = tonumber(from), room = tonumber(room)}
    n = tonumber(n)
    if n ~= l.n and n > 0 then st.have, st.from, st.room = rescale(st.have, n, l.n), st.last + 1, 0 end
    if st.have > l.burst * l.n then st.have, st.from, st.room = l.burst * l.n, st.last + 1, 0 end
    return st
  end,
  save = function(l, st)
    return int(st.last) .. ':' .. int(st.have) .. ':' .. int(l.n) .. ':' .. int(st.from) .. ':' .. int(st.room)
  end,
  lost = function(l, st, t) st.last, st.have, st.from, st.room = math.max(t, st.last), 0, math.max(t, st.last) + 1, 0 end,
  earliest = function(l, st, t) return algorithms.token_bucket.after(l, st, t, 0) end,
  charge = function(l, st, t)
    local have = token_have(l, st, t)
    if t > st.last then -- charges at one time do not limit each other's return
      st.room = math.max(0, math.min(st.room, l.burst * l.n - have))
      if st.room < l.n then st.from, st.room = t, l.burst * l.n end
    end
    st.have, st.last = math.max(0, have - l.n), math.max(t, st.last)
  end,
  refund = function(l, st, slot)
    if slot < st.from then return end
    local back = math.min(l.n, st.room)
    st.have, st.room = st.have + back, st.room - back
  end,
  after = function(l, st, t, k)
    t = math.max(t, st.last)
    local missing = (k + 1) * l.n - token_have(l, st, t)
    if missing <= 0 then return t end
    return t + math.ceil(missing / l.rate)
  end,
}
