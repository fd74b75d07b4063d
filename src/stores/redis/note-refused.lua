-- Notes until when consumers are refused. Bounded, and what has ended goes with each call.
--
-- KEYS[1] sorted set: consumers by the end of their refusal, Unix milliseconds
-- KEYS[2] hash: the rest of each, as `refused minute 1 free`
-- ARGV    most members; then for each consumer its id, its end, the rest
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- What another program has written there is replaced: gateways report again whom they refuse.
for i, command in ipairs({ 'ZCARD', 'HLEN' }) do
  local size = redis.pcall(command, KEYS[i])
  if type(size) == 'table' and string.find(size.err, 'WRONGTYPE', 1, true) then redis.call('DEL', KEYS[i]) end
end

for i = 2, #ARGV, 3 do
  redis.call('ZADD', KEYS[1], ARGV[i + 1], ARGV[i])
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 2])
end

local surplus = redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[1])
local soonest = redis.call('ZRANGE', KEYS[1], 0, math.max(surplus, 1000), 'WITHSCORES')
for i = 1, #soonest, 2 do
  if tonumber(soonest[i + 1]) > now and (i + 1) / 2 > surplus then break end
  redis.call('ZREM', KEYS[1], soonest[i])
  redis.call('HDEL', KEYS[2], soonest[i])
end
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
if last[2] then
  for _, key in ipairs(KEYS) do redis.call('PEXPIREAT', key, last[2]) end
end
return 0
