-- Adds usage to one consumer's windows that a gateway admitted while it could not reach the store (contract section 6).
--
-- windows.lua and history.lua precede it.
--
-- KEYS[1] the hash of the consumer, its fields as in windows.lua
-- KEYS[2] the history of the consumer
-- ARGV    the present by the gateway's own clock if the ends below are by that clock, else 0; the number of windows; for each
--         of them its index, its slices per length (0: it does not slide), 1 if it is a calendar window (else 0), the cost to
--         add, when nothing of it counts any more. All times in milliseconds. Then for the history hours since 1970 and the
--         cost to add, in turn, and the gateway's clock as in history.lua.
-- reply   for each window 1 if the cost was added, 0 if the window has ended; or a string if the hash has foreign values
--
-- A window that has ended in the store or in the gateway is never opened again. If both are open and end at different
-- times (the store was emptied, or had no window yet), they become one window that ends with the earlier of them. So a
-- client that waits for the end of either has waited long enough. In a sliding window the cost is counted in the slice of
-- the present.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local shift = tonumber(ARGV[1]) > 0 and now - tonumber(ARGV[1]) or 0

local replies, changes, last = {}, {}, 0
local afterWindows = 3 + 5 * tonumber(ARGV[2])
for at = 3, afterWindows - 1, 5 do
  local index, per, isCalendar, spent, ends =
    tonumber(ARGV[at]), tonumber(ARGV[at + 1]), ARGV[at + 2] == '1', tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]) + shift
  local values = redis.pcall('HMGET', KEYS[1], USED[index], ENDS[index])
  if values.err then
    if string.find(values.err, 'WRONGTYPE', 1, true) then return 'WRONGTYPE' end
    return values
  end
  if per == 0 and not isCalendar then ends = math.min(ends, now + LENGTHS[index]) end
  local window = { index = index, per = per, latest = ends }
  if readWindow(window, values[1], values[2], now) == nil or window.used > MOST - spent then return 'FOREIGN' end
  if ends <= now then
    replies[#replies + 1] = 0
  else
    countIn(window, now, spent)
    putWindow(changes, window)
    last = math.max(last, window.ends)
    replies[#replies + 1] = 1
  end
end
if #changes > 0 then
  -- The only write besides the expiry: if the store refuses writes, nothing has been done.
  local written = redis.pcall('HSET', KEYS[1], unpack(changes))
  if type(written) == 'table' and written.err then return written end
  redis.call('PEXPIREAT', KEYS[1], math.max(last, now + redis.call('PTTL', KEYS[1])))
end
for at = afterWindows, readGatewayClock(time[1]), 2 do
  -- The middle of the hour, by the store's clock.
  local hour = floor((tonumber(ARGV[at]) * 3600000 + 1800000 + shift) / 3600000)
  local err = history().broughtLate(KEYS[2], hour, tonumber(ARGV[at + 1]), floor(now / 3600000))
  if err then return err end
end
return replies
