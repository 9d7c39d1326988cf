-- keys: idempotency keys. idem: key hash -> id 22, fingerprint 22, then the state of
-- a job that ended; idemends: keys of jobs that ended -> end of their life (TIME µs).
-- load_keys reads the keys of a push: {id, print, state} or nothing when free or outlived.
local function load_keys(hashes, raw)
  local out = {}
  if #hashes == 0 then return out end
  local values, ends = call('HMGET', K.idem, unpack(hashes)), {}
  for i, v in ipairs(values) do
    if v and #v > 44 then ends[i] = tonumber(call('ZSCORE', K.idemends, hashes[i]) or '') end
    if v and not (ends[i] and ends[i] <= raw) then
      out[hashes[i]] = {id = string.sub(v, 1, 22), print = string.sub(v, 23, 44), state = string.sub(v, 45)}
    end
  end
  return out
end

-- save_keys stores the keys of accepted jobs; flat is key, value, key, value …
local function save_keys(flat)
  if #flat == 0 then return 0 end
  local keys = {}
  for i = 1, #flat, 2 do keys[#keys + 1] = flat[i] end
  local outlived = call('ZREM', K.idemends, unpack(keys))
  write('HSET', K.idem, flat)
  return outlived
end
