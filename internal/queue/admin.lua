-- admin: what scripts of the operator share.
-- change raises the epoch, plans the next look and saves; it answers how long
-- slots that were granted before may still be used, in µs.
local function change(now, raw)
  S.epoch = S.epoch + 1
  W.epoch = int(S.epoch)
  local list = C.list
  open_limits(list, now)
  save_limits(list)
  S.planned = nil
  plan_earlier(next_look(list, now, raw, is_paused(), 'empty'), now)
  save_state()
  return int(math.max(0, list.last + list.tolerance - now))
end
