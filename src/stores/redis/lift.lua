-- Lifts a ban that is in force (the twin of `lift` in src/admit/decide.ts): clears the strikes, takes back the rung.
-- KEYS[1] the hash of one consumer, its fields as in decide.lua. Replies 1, or 0 where there is no ban in force (or
-- something foreign, which is left as it is).
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local values = redis.pcall('HMGET', KEYS[1], 'b', 'B', 'w')
if values.err then
  if string.find(values.err, 'WRONGTYPE', 1, true) then return 0 end
  return values
end
local number, banEnd, window = tonumber(values[1] or 0), tonumber(values[2] or 0), tonumber(values[3] or 0)
if not (number and banEnd and window) or number < 1 or window < 1 or window > 4 then return 0 end
if now >= banEnd then return 0 end
redis.call('HDEL', KEYS[1], 'x', 'X')
if number == 1 then
  redis.call('HDEL', KEYS[1], 'b', 'B', 'w')
else
  redis.call('HSET', KEYS[1], 'b', number - 1, 'B', now)
end
return 1
