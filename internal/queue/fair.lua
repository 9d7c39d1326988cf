-- fair: tenants by virtual start time, jobs of a tenant by their order. A tenant
-- pays 1/weight when a job of it gets a slot (start-time fair queueing).
local weights

local function weight(tenant)
  if weights == nil then weights = C.weights and C.weights ~= '' and cjson.decode(C.weights) or false end
  return weights and tonumber(weights[tenant]) or 1
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
    if not call('ZSCORE', K.tenants, tenant) then
      local finish = tonumber(call('ZSCORE', K.finish, tenant) or '')
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

local function drop_dry(seen)
  local dry = {}
  for tenant in pairs(seen) do if #first_members(tenant, 0, 1) == 0 then dry[#dry + 1] = tenant end end
  write('ZREM', K.tenants, dry)
end

-- choose lists the next n jobs in fair order as {id, tenant, member}, without
-- taking them, with each tenant's virtual start after it.
local function choose(n)
  local flat, queue = call('ZRANGE', K.tenants, 0, n - 1, 'WITHSCORES'), {}
  for i = 1, #flat, 2 do queue[#queue + 1] = {name = flat[i], start = tonumber(flat[i + 1]), from = 0, next = 1, members = {}} end
  local chunk, out = (#queue == 1) and n or math.ceil(n / math.max(1, #queue)) + 1, {}
  while #out < n and #queue > 0 do
    local best = 1
    for i = 2, #queue do if queue[i].start < queue[best].start then best = i end end
    local q = queue[best]
    if q.next > #q.members then q.members, q.next = first_members(q.name, q.from, chunk), 1 ; q.from = q.from + chunk end
    local m = q.members[q.next]
    if m then
      out[#out + 1] = {id = string.sub(m, -22), tenant = q.name, member = m, start = q.start}
      q.next, q.start = q.next + 1, q.start + 1 / weight(q.name)
    else table.remove(queue, best) end
  end
  return out
end

-- charge_tenants lets tenants pay for n[tenant] slots; vt is the start of the last one served.
local function charge_tenants(n, vt)
  local add, fin, dry = {}, {}, {}
  for tenant, k in pairs(n) do
    local finish = tonumber(call('ZSCORE', K.tenants, tenant) or '0') + k / weight(tenant)
    local z = (#first_members(tenant, 0, 1) > 0) and add or fin
    if z == fin then dry[#dry + 1] = tenant end
    z[#z + 1] = real(finish) ; z[#z + 1] = tenant
  end
  write('ZREM', K.tenants, dry)
  write('ZADD', K.tenants, add)
  write('ZADD', K.finish, fin)
  if vt and vt > S.vt then S.vt, W.vt = vt, real(vt) end
  call('ZREMRANGEBYSCORE', K.finish, '-inf', real(S.vt))
end
