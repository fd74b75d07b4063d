-- Lifts a ban that is in force (the twin of `lift` in src/admit/decide.ts): clears the strikes, takes back the rung.
-- KEYS[1] the hash of one consumer, its fields as in decide.lua; KEYS[2] the last changes. ARGV[1] the id of this change;
-- ARGV[2] empty, or where the lift is made again the end of the ban that it lifted: a later ban is not lifted with it.
-- `note` and `noted` stand before this (NOTED_LUA in key-writes.ts). Replies the end of the ban that was lifted, or nothing
-- where there is none in force, something foreign, which is left as it is, or the lift made again was not undone.
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
if not (number and banEnd and window) or number < 1 or window < 1 or window > 4 then return false end
if now >= banEnd or (again and values[2] ~= ARGV[2]) then return false end
redis.call('HDEL', KEYS[1], 'x', 'X')
if number == 1 then
  redis.call('HDEL', KEYS[1], 'b', 'B', 'w')
else
  redis.call('HSET', KEYS[1], 'b', number - 1, 'B', now)
end
if not again then note(ARGV[1]) end
return values[2]
