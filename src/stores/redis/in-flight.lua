-- Notes how many requests of one account a process has in flight. windows.lua precedes it.
--
-- KEYS[1] the hash of the account, its fields as in windows.lua
-- ARGV[1] the name of the process
-- ARGV[2] how many it has
-- reply   0; or a string if the name holds something else than a hash
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local text = redis.pcall('HGET', KEYS[1], 'f')
if type(text) == 'table' and text.err then return 'WRONGTYPE' end

local left = {}
for holder, count, ends in string.gmatch(text or '', '(%S+) (%d+) (%d+)') do
  if holder ~= ARGV[1] and tonumber(ends) > now then
    left[#left + 1] = string.format('%s %s %d', holder, count, min(tonumber(ends), now + TICKET_MS))
  end
end
if tonumber(ARGV[2]) > 0 then left[#left + 1] = string.format('%s %s %d', ARGV[1], ARGV[2], now + TICKET_MS) end
if #left == 0 then
  -- The hash goes with its last field.
  redis.call('HDEL', KEYS[1], 'f')
  return 0
end
redis.call('HSET', KEYS[1], 'f', table.concat(left, ' '))
redis.call('PEXPIREAT', KEYS[1], max(now + TICKET_MS, now + redis.call('PTTL', KEYS[1])))
return 0
