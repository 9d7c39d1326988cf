-- token_bucket: an average of rate per n µs, with burst tokens at most.
-- State: last:miss:n, where miss is what is missing to a full bucket, in 1/n of
-- a token at the time last: refilling subtracts rate each µs, so integers stay exact.
local function token_miss(l, st, t)
  return math.max(0, st.miss - math.max(0, t - st.last) * l.rate)
end

algorithms.token_bucket = {
  load = function(l, s, last)
    local a, miss, n = string.match(s or '', '^(%d+):(%d+):(%d+)$')
    if not a then return {last = last, miss = 0} end
    a, miss, n = tonumber(a), tonumber(miss), tonumber(n)
    if n ~= l.n then miss = math.ceil(miss / n * l.n) end
    return {last = a, miss = math.min(miss, l.burst * l.n)}
  end,
  save = function(l, st) return int(st.last) .. ':' .. int(st.miss) .. ':' .. int(l.n) end,
  lost = function(l, st, t) st.last, st.miss = math.max(t, st.last), l.burst * l.n end,
  earliest = function(l, st, t) return algorithms.token_bucket.after(l, st, t, 0) end,
  charge = function(l, st, t)
    st.miss = token_miss(l, st, t) + l.n
    st.last = math.max(t, st.last)
  end,
  refund = function(l, st) st.miss = math.max(0, st.miss - l.n) end,
  after = function(l, st, t, k)
    t = math.max(t, st.last)
    local over = token_miss(l, st, t) + (k + 1 - l.burst) * l.n
    if over <= 0 then return t end
    return t + math.ceil(over / l.rate)
  end,
}
