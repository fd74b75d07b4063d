-- Lifts a ban that is in force (the twin of `lift` in src/engine/changes.ts): clears the strikes, takes back the rung.
--
-- KEYS[1] the hash of one consumer, its fields as in windows.lua
-- KEYS[2] the list of the last changes
-- ARGV[1] the id of this change
-- ARGV[2] empty; or, if the lift is repeated after a failover, the end of the ban that it lifted, so that a later ban stays
-- reply   the end of the lifted ban; or nil if no ban is in force, the hash has foreign values (which stay as they are), or
--         a repeated lift had not been undone
--
-- NOTED_LUA (record-writes.ts), which defines `note` and `noted`, is put in front of this script.
local again = ARGV[2] ~= ''
if again then
  if noted(ARGV[1]) then return false end
  note(ARGV[1])
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local values = redis.pcall('HMGET', KEYS[1], 'b', 'B', 'w')
if values.err then
  if string.find(values.err, 'WRONGTYPE', 1, true) then return false end
  return values
end
local number, banEnd, window = tonumber(values[1] or 0), tonumber(values[2] or 0), tonumber(values[3] or 0)
if not (number and banEnd and window) or number < 1 or window < 1 or window > 6 then return false end
if now >= banEnd or (again and values[2] ~= ARGV[2]) then return false end
redis.call('HDEL', KEYS[1], 'x', 'X')
if number == 1 then
  redis.call('HDEL', KEYS[1], 'b', 'B', 'w')
else
  redis.call('HSET', KEYS[1], 'b', number - 1, 'B', now)
end
if not again then note(ARGV[1]) end
return values[2]
