-- choose: whose jobs come next.
-- choose lists the next n jobs in fair order as {id, tenant, member}, without
-- taking them, with the virtual start of each and its tenant's queue: since, its start before
-- all of them; read, how many members were read, and more, whether there can be others.
local function choose(n)
  if n <= 0 then return {} end
  local flat, queue = call('ZRANGE', K.tenants, 0, n - 1, 'WITHSCORES'), {}
  for i = 1, #flat, 2 do
    local since = tonumber(flat[i + 1])
    queue[#queue + 1] = {name = flat[i], since = since, start = since, read = 0, taken = 0, next = 1, members = {}}
  end
  local chunk, out = (#queue == 1) and n + 1 or math.ceil(n / math.max(1, #queue)) + 1, {}
  while #out < n and #queue > 0 do
    local best = 1
    for i = 2, #queue do if queue[i].start < queue[best].start then best = i end end
    local q = queue[best]
    if q.next > #q.members then
      q.members, q.next = first_members(q.name, q.read, chunk), 1
      q.read, q.more = q.read + #q.members, #q.members == chunk
    end
    local m = q.members[q.next]
    if m then
      out[#out + 1] = {id = string.sub(m, -22), tenant = q.name, member = m, start = q.start, queue = q}
      q.next, q.start = q.next + 1, q.start + 1 / weight(q.name)
    else table.remove(queue, best) end
  end
  return out
end

-- choose_probe is the next job, or the one behind it when that failed as a probe before.
local function choose_probe(failed)
  local two = choose(2)
  if #two == 2 and two[1].id == failed then return {two[2]} end
  return {two[1]}
end

local LIGHT = 131072 -- bytes of bodies that a reply carries in no time
local CARRIED = 20 -- bytes per µs that a reply is taken to carry beyond that; a busy machine does

-- affordable cuts the choice to A.bytes of bodies; a larger job goes alone. Answers
-- also how much longer than A.lead the reply needs to carry them, in µs.
local function affordable(chosen)
  if S.bytes <= LIGHT then return #chosen, 0 end
  local bytes, n = 0, #chosen
  for i, c in ipairs(chosen) do
    local size = call('HSTRLEN', K.jobs, c.id)
    if bytes + size + i * JOB_BYTES > A.bytes and i > 1 then n = i - 1 break end
    bytes = bytes + size
  end
  return n, math.floor(math.max(0, bytes - LIGHT) / CARRIED)
end
