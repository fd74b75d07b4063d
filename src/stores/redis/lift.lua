-- Lifts a ban that is in force (the twin of `lift` in src/admit/decide.ts): clears the strikes, takes back the rung.
-- KEYS[1] the hash of one consumer, its fields as in decide.lua. Replies 1, or 0 where there is no ban in force.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local number, banEnd = unpack(redis.call('HMGET', KEYS[1], 'b', 'B'))
number, banEnd = tonumber(number or 0), tonumber(banEnd or 0)
if number == 0 or now >= banEnd then return 0 end
redis.call('HDEL', KEYS[1], 'x', 'X')
if number == 1 then
  redis.call('HDEL', KEYS[1], 'b', 'B', 'w')
else
  redis.call('HSET', KEYS[1], 'b', number - 1, 'B', now)
end
return 1
