-- list, the main part.
-- below compares bytes, as sorted sets do: what < does depends on the locale of the server.
local function below(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- passed counts the entries before a place, and with own the one at it: the job
-- there may have left, so its rank cannot be asked for.
local function passed(key, score, id, own)
  local low, high = 0, call('ZCARD', key)
  while low < high do
    local mid = math.floor((low + high) / 2)
    local z = call('ZRANGE', key, mid, mid, 'WITHSCORES')
    local s = tonumber(z[2])
    if s < score or s == score and (below(z[1], id) or own and z[1] == id) then low = mid + 1 else high = mid end
  end
  return low
end

-- scored lists ids and places of an index that is sorted by time.
local function scored(key)
  local from, to
  if A.back then
    to = (A.after == '' and call('ZCARD', key) or passed(key, tonumber(A.after), A.id, false)) - 1
    from = math.max(0, to - A.n + 1)
  else
    from = A.after == '' and 0 or passed(key, tonumber(A.after), A.id, true)
    to = from + A.n - 1
  end
  local ids, places = {}, {}
  local flat = to >= from and call('ZRANGE', key, from, to, 'WITHSCORES') or {}
  for i = 1, #flat, 2 do
    local score = tonumber(flat[i + 1])
    if A['until'] >= 0 and score > A['until'] then break end
    local at = A.back and 1 or #ids + 1
    table.insert(ids, at, flat[i]) ; table.insert(places, at, int(score))
  end
  return ids, places
end

local function ready_members()
  if A.back then return call('ZREVRANGEBYLEX', K.ready, A.after == '' and '+' or '(' .. A.after, '-', 'LIMIT', 0, A.n) end
  return call('ZRANGEBYLEX', K.ready, A.after == '' and '-' or '(' .. A.after, '+', 'LIMIT', 0, A.n)
end

-- texts reads what is stored of ids, as many as a call may read.
local function texts(key, ids)
  local n, bytes = 0, 0
  for i, id in ipairs(ids) do
    bytes = bytes + call('HSTRLEN', key, id)
    if bytes > MOST_BYTES / 2 and i > 1 then break end
    n = i
  end
  return n > 0 and call('HMGET', key, unpack(ids, 1, n)) or {}, n
end

-- cut cuts what is stored behind the meta data of its envelope; their length stands before them.
local function cut(text)
  if A.index == 'done' then return text end
  local from = 0 -- bytes before the envelope
  if A.index == 'dead' then
    local length, note = string.match(text, '^%a+|%d+|[^|]*|(%d+)|()')
    from = note and note - 1 + tonumber(length) or #text
  end
  local nul = string.find(text, '%z', from + 1)
  if not nul then return string.sub(text, 1, from) end
  local a, b, c, d = string.byte(text, nul + 1, nul + 4)
  return string.sub(text, 1, d and nul + 4 + ((a * 256 + b) * 256 + c) * 256 + d or from)
end

local function list()
  local _, raw, adj = read_clock()
  if load_contract() == 'no_lane' then return {'no_lane'} end
  local ids, places, key = {}, {}, K.jobs
  if A.index == 'ready' then
    places = ready_members()
    for i, m in ipairs(places) do ids[i] = string.sub(m, -22) end
  elseif A.index == 'done' then ids, places = scored(K.doneends) ; key = K.done
  else ids, places = scored(K[A.index]) ; key = A.index == 'dead' and K.deadjobs or K.jobs end
  local found, n = texts(key, ids)
  local tries, out = key == K.jobs and n > 0 and call('HMGET', K.tries, unpack(ids, 1, n)) or {}, {}
  for i = 1, n do out[i] = {ids[i], places[i], found[i] and cut(found[i]) or '', tries[i] or ''} end
  return {'ok', int(raw), int(adj), (n < #ids or n == A.n) and 1 or 0, out}
end

return list()
