-- Adds to one consumer's windows what a gateway admitted while it could not reach the store (contract section 6).
--
-- KEYS[1] the hash of the consumer, its fields as in decide.lua
-- ARGV    what the gateway takes for the present where the ends below are by its own clock, else 0; then per window its
--         index, its length, what was spent in it, its end. All times in milliseconds.
-- reply   per window 1 where it was added, 0 where the window has ended; or a string (something foreign is there)
--
-- A window that has ended here or there is never opened again. Where the store's window and the gateway's are both
-- open and end at different times (the store was emptied, or had no window yet), they are one from now on and end with
-- the first of them: whoever was told to wait for either has waited long enough.
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
  -- The only write but the expiry: where the store refuses writes, nothing has happened.
  local written = redis.pcall('HSET', KEYS[1], unpack(changes))
  if type(written) == 'table' and written.err then return written end
  redis.call('PEXPIREAT', KEYS[1], math.max(last, now + redis.call('PTTL', KEYS[1])))
end
return replies
