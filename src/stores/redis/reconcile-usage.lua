-- Adds usage to one consumer's windows that a gateway admitted while it could not reach the store (contract section 6).
--
-- KEYS[1] the hash of the consumer, its fields as in decide.lua
-- ARGV    the present by the gateway's own clock if the ends below are by that clock, else 0; then for each window its
--         index, its length, the cost to add, its end. All times in milliseconds.
-- reply   for each window 1 if the cost was added, 0 if the window has ended; or a string if the hash has foreign values
--
-- A window that has ended in the store or in the gateway is never opened again. If both are open and end at different
-- times (the store was emptied, or had no window yet), they become one window that ends with the earlier of them. So a
-- client that waits for the end of either has waited long enough.
local USED = { 's', 'm', 'h', 'd' }
local ENDS = { 'S', 'M', 'H', 'D' }

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local shift = tonumber(ARGV[1]) > 0 and now - tonumber(ARGV[1]) or 0

local replies, changes, last = {}, {}, 0
for at = 2, #ARGV, 4 do
  local index, length, spent, ends =
    tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]) + shift
  local values = redis.pcall('HMGET', KEYS[1], USED[index], ENDS[index])
  if values.err then
    if string.find(values.err, 'WRONGTYPE', 1, true) then return 'WRONGTYPE' end
    return values
  end
  local used, open = tonumber(values[1] or 0), tonumber(values[2] or 0)
  if not (used and open) or used < 0 or open < 0 or used > 9007199254740992 - spent then return 'FOREIGN' end
  ends = math.min(ends, now + length)
  if ends <= now then
    replies[#replies + 1] = 0
  else
    if open > now then ends = math.min(ends, open) else used = 0 end
    changes[#changes + 1] = USED[index]
    changes[#changes + 1] = used + spent
    changes[#changes + 1] = ENDS[index]
    changes[#changes + 1] = ends
    last = math.max(last, ends)
    replies[#replies + 1] = 1
  end
end
if #changes > 0 then
  -- The only write besides the expiry: if the store refuses writes, nothing has been done.
  local written = redis.pcall('HSET', KEYS[1], unpack(changes))
  if type(written) == 'table' and written.err then return written end
  redis.call('PEXPIREAT', KEYS[1], math.max(last, now + redis.call('PTTL', KEYS[1])))
end
return replies
