-- policy: what a lane learns from answers. A cool-down and a breaker keep jobs in
-- the queue: they say from when on the lane may send.
-- State: cool: end of the cool-down, logical µs; good: the latest slot that was
-- delivered, µs; breaker: phase|n|open until µs|since µs|id of the probe, or of the one before.
-- n counts failures in a row while closed, and openings in a row otherwise. Only
-- attempts whose slot lies behind since count: what was sent before it closed tells nothing.
-- failing: the outcome that opened it last, for people.

-- terms are the contract's: failures, open for and at most, µs; nil when it has no breaker.
local function terms()
  local failures, open_for, most = string.match(C.breaker or '', '^(%d+)|(%d+)|(%d+)$')
  failures, open_for, most = finite(failures), finite(open_for), finite(most)
  if failures and open_for and most and failures > 0 then return failures, open_for, most end
end

-- read_breaker answers {phase, n, ends, since, id}; closed when the contract has none.
local function read_breaker()
  local phase, n, ends, since, id = string.match(S.breaker or '', '^(%a+)|(%d+)|(%d+)|(%d+)|(.*)$')
  n, ends, since = finite(n), finite(ends), finite(since)
  if n and ends and since and terms() then return {phase = phase, n = n, ends = ends, since = since, id = id} end
  return {phase = 'closed', n = 0, ends = 0, since = 0, id = ''}
end

local function write_breaker(old, phase, n, ends, since, id)
  if old.phase ~= phase then count('breaker_' .. phase, 1) end
  S.breaker = table.concat({phase, int(n), int(ends), int(since), id}, '|')
  W.breaker = S.breaker
end

-- hold raises the epoch: workers give back what they were granted and have not sent.
local function hold()
  S.epoch = S.epoch + 1
  W.epoch = int(S.epoch)
end

local function open_breaker(b, n, now, id, outcome)
  local _, open_for, most = terms()
  W.failing = outcome
  if b.phase == 'closed' then count('breaker_fell', 1) end
  write_breaker(b, 'open', n, now + math.min(most, open_for * 2 ^ math.min(n - 1, 40)), b.since, id)
  hold()
end

-- sends_from is the earliest time at which the lane may send; nil while a probe is
-- out. A probe whose lease is gone without an answer was lost: the next may go.
local function sends_from(now)
  local t = math.max(now, S.cool)
  if not S.breaker then return t end
  local b = read_breaker()
  if b.phase == 'open' then return math.max(t, b.ends) end
  if b.phase == 'probing' and call('ZSCORE', K.leased, b.id) then return nil end
  return t
end

-- is_probing says that one job may go and no more, and which it should not be if there is another.
local function is_probing()
  local b = S.breaker and read_breaker()
  if b and b.phase ~= 'closed' then return true, b.id end
  return false
end

local function send_probe(id)
  local b = read_breaker()
  write_breaker(b, 'probing', b.n, b.ends, b.since, id)
end

-- learn takes in whether the destination answered (health ok, slow or bad) to an attempt in a slot.
local function learn(health, id, slot, kind, outcome, now)
  local delivered = kind == 'delivered'
  if delivered and slot > S.good then S.good = slot ; W.good = int(slot) end
  if health ~= '' then adapt(health == 'ok' and kind ~= 'throttled', slot, now) end
  local failures = terms()
  if health == '' or not failures then return end
  local b = read_breaker()
  local ok = health ~= 'bad'
  if b.phase == 'probing' then
    if id ~= b.id then return end
    if ok then write_breaker(b, 'closed', 0, 0, now, '') ; start_slowly(now) else open_breaker(b, b.n + 1, now, id, outcome) end
  elseif b.phase == 'closed' and (slot >= b.since or b.since > now) then -- it closed when the clock was ahead
    if ok and b.n > 0 then write_breaker(b, 'closed', 0, 0, b.since, '') end
    if ok then return end
    if b.n + 1 >= failures then open_breaker(b, 1, now, '', outcome) else write_breaker(b, 'closed', b.n + 1, 0, b.since, '') end
  end
end

-- cool_down answers until when a job waits whose destination said "later" for so
-- long. The destination cools down for all, unless the job drew that answer before
-- (in slot prev) and others were delivered since: then it is the job's own matter.
local function cool_down(delay, prev, now)
  if prev > 0 and S.good > prev then return now + delay end
  if now + delay > S.cool then
    S.cool = now + delay
    W.cool = int(S.cool)
    hold()
  end
  return S.cool
end
