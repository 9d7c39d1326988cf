-- fair: tenants by virtual start time, jobs of a tenant by their order. A tenant
-- pays 1/weight when a job of it gets a slot (start-time fair queueing).
local MOST_FINISHED = 10000 -- tenants
local weights

local function weight(tenant)
  if weights == nil then
    local ok, read = pcall(cjson.decode, C.weights or '')
    weights = ok and type(read) == 'table' and read or {}
  end
  local w = tonumber(weights[tenant])
  return w and w > 0 and w or 1
end

local function real(x) return string.format('%.17g', x) end
local function member(t, id) return t.tenant .. '\0' .. t.order .. id end

-- put_ready adds jobs, {id, t} each, and starts tenants that had none.
local function put_ready(jobs)
  if #jobs == 0 then return end
  local add, seen, start, started = {}, {}, {}, {}
  for _, j in ipairs(jobs) do
    add[#add + 1] = 0 ; add[#add + 1] = member(j.t, j.id)
    seen[j.t.tenant] = true
  end
  for tenant in pairs(seen) do
    if not score_of(K.tenants, tenant) then
      local finish = score_of(K.finish, tenant)
      if finish then started[#started + 1] = tenant end
      start[#start + 1] = real(math.max(S.vt, finish or 0)) ; start[#start + 1] = tenant
    end
  end
  write('ZREM', K.finish, started)
  write('ZADD', K.ready, add)
  write('ZADD', K.tenants, start)
end

-- take_ready removes jobs, {id, t} each, from ready and drops tenants that ran dry.
local function take_ready(jobs)
  local rem, seen = {}, {}
  for _, j in ipairs(jobs) do rem[#rem + 1] = member(j.t, j.id) ; seen[j.t.tenant] = true end
  write('ZREM', K.ready, rem)
  return seen
end

local function first_members(tenant, from, n)
  return call('ZRANGEBYLEX', K.ready, '[' .. tenant .. '\0', '(' .. tenant .. '\1', 'LIMIT', from, n)
end

-- behind is the place behind a tenant's last ready job, or a job's own when that is behind it.
local function behind(t)
  local last = call('ZREVRANGEBYLEX', K.ready, '(' .. t.tenant .. '\1', '[' .. t.tenant .. '\0', 'LIMIT', 0, 1)[1]
  local order = last and string.sub(last, -36, -23)
  return order and order >= t.order and hex14(order_time(order) + 1) or t.order
end

-- drop_dry puts tenants without ready jobs aside, with what they have yet to
-- wait for what they had.
local function drop_dry(seen)
  local dry, fin = {}, {}
  for tenant in pairs(seen) do
    local start = #first_members(tenant, 0, 1) == 0 and call('ZSCORE', K.tenants, tenant)
    if start then
      dry[#dry + 1] = tenant
      if tonumber(start) > S.vt then fin[#fin + 1] = start ; fin[#fin + 1] = tenant end
    end
  end
  write('ZREM', K.tenants, dry)
  write('ZADD', K.finish, fin)
end

-- give_back undoes the charge of n[tenant] slots, for tenants that have ready jobs again.
local function give_back(n)
  for tenant, k in pairs(n) do write('ZINCRBY', K.tenants, {real(-k / weight(tenant)), tenant}) end
end

-- charge_tenants lets tenants pay for n[queue] slots, each by its queue as choose read it; vt is the start of the last one served.
local function charge_tenants(n, vt)
  local add, fin, dry = {}, {}, {}
  if vt and vt > S.vt then S.vt, W.vt = vt, real(vt) end
  for q, k in pairs(n) do
    local finish, more = q.since + k / weight(q.name), q.read > q.taken or q.more and #first_members(q.name, 0, 1) > 0
    if more then add[#add + 1] = real(finish) ; add[#add + 1] = q.name
    else
      dry[#dry + 1] = q.name
      if finish > S.vt then fin[#fin + 1] = real(finish) ; fin[#fin + 1] = q.name end
    end
  end
  write('ZREM', K.tenants, dry)
  write('ZADD', K.tenants, add)
  write('ZADD', K.finish, fin)
  -- What this call has put aside is above vt: only others can be outlived.
  if #fin == 0 or size_of(K.finish) > #fin / 2 then write('ZREMRANGEBYSCORE', K.finish, {'-inf', real(S.vt)}) end
  -- Tenants that come once each never move vt: the largest debts are kept.
  if #fin > 0 and size_of(K.finish) > MOST_FINISHED then write('ZREMRANGEBYRANK', K.finish, {0, -1 - MOST_FINISHED}) end
end
