-- Gives a ban of one account to another (the twin of `banned` in src/engine/changes.ts). The two may be in different slots
-- of a cluster, so the ban is read first, and this script writes it.
--
-- KEYS[1] the hash of the account that gets the ban, its fields as in windows.lua
-- ARGV[1..4] the fields b, B, w and W of the ban
-- ARGV[5] how long the other account is kept, milliseconds: as long as its ban is remembered
-- reply   1 if the ban was written, 0 if it has ended, or the account has one that ends later, or holds foreign values
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local banEnd = tonumber(ARGV[2])
if now >= banEnd then return 0 end
local values = redis.pcall('HMGET', KEYS[1], 'B')
if values.err then
  if string.find(values.err, 'WRONGTYPE', 1, true) then return 0 end
  return values
end
local there = tonumber(values[1] or 0)
if not there or there >= banEnd then return 0 end
local kept = redis.call('PTTL', KEYS[1])
redis.call('HSET', KEYS[1], 'b', ARGV[1], 'B', ARGV[2], 'w', ARGV[3], 'W', ARGV[4])
redis.call('PEXPIRE', KEYS[1], math.max(kept, tonumber(ARGV[5]), banEnd - now))
return 1
