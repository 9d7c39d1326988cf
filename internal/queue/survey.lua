-- survey, the main part.
-- is_unfit says that a worker has told lately why it cannot send to the lane; see unfit.go.
local function is_unfit(raw)
  return raw < (finite(string.match(call('HGET', K.state, 'unfit') or '', '^(%d+)|')) or 0)
end

-- not_sent counts the dead jobs, and the unknown ones, which are kept with them.
local function not_sent(unknown)
  unknown = math.max(0, unknown or 0)
  return int(math.max(0, call('ZCARD', K.dead) - unknown)), int(unknown)
end

local function survey_counts()
  local jobs, out = call('HLEN', K.jobs), {}
  out[1], out[2], out[3], out[4] = jobs, 0, 0, 0
  if jobs > 0 then out[2], out[3], out[4] = call('ZCARD', K.ready), call('ZCARD', K.waiting), call('ZCARD', K.leased) end
  out[5], out[6] = not_sent(finite(S.unknown))
  out[7] = int(S.bytes)
  return out
end

-- brief is all that can differ in a lane without jobs whose contract the caller
-- knows; nil when there may be more.
local function brief(known)
  if known == '' or call('HLEN', K.jobs) > 0 then return nil end
  fields(K.conf, {'version', 'gen'}, C)
  if (C.version or '') .. '.' .. (C.gen or '') ~= known then return nil end
  fields(K.state, {'opaused', 'faulty', 'breaker', 'unknown'}, S)
  if S.faulty and S.faulty ~= '' or S.breaker and string.sub(S.breaker, 1, 6) ~= 'closed' then return nil end
  return {'idle', S.opaused and S.opaused ~= '' and 1 or 0, not_sent(finite(S.unknown))}
end

local function survey_lane(now, raw, known)
  local idle = brief(known)
  if idle then return idle end
  local status = load_contract()
  if status == 'no_lane' then return {'no_lane'} end
  load_state()
  if is_marked() then status = 'faulty' end
  local class, c = call('HGET', K.conf, 'class') or '', survey_counts()
  local held = C.paused == '1' and 2 or is_paused() and 1 or is_unfit(raw) and 5 or is_probing() and 3 or S.cool > now and 4 or 0
  local out = {status, class, held, c[1], c[2], c[3], c[4], c[5], c[6], c[7]}
  if status == 'faulty' then return out end
  local pushed = c[1] > 0 and pushed_at()
  out[11], out[12], out[13] = pushed and int(math.max(0, now - pushed)) or '', int(C.capacity), int(C.max_bytes)
  out[14], out[15] = int(S.occupied or 0), int(C.version) .. '.' .. int(C.gen)
  open_limits(C.list, now)
  for _, l in ipairs(C.list) do
    for _, v in ipairs({l.name, int(l.rate), int(l.window * (l.scale or 1)), int(l.n)}) do out[#out + 1] = v end
  end
  return out
end

local function survey()
  K.clock = KEYS[1]
  local out, now, raw = {}, read_clock()
  for i = 1, A.lanes do
    for n, name in ipairs(LANE) do K[name] = KEYS[1 + (i - 1) * #LANE + n] end
    C, S, W = {}, {}, {}
    local ok, lane = pcall(survey_lane, now, raw, ARGV[1 + i])
    out[i] = ok and lane or {'damaged'}
  end
  return out
end

return survey()
