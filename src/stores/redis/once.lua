-- Makes a change of one account once for each id. windows.lua precedes this script, and after it top-ups.lua with
-- top-up.lua or undo-top-up.lua, or reset-usage.lua.
--
-- KEYS[1] the hash of the consumer, its fields as in windows.lua
-- KEYS[2] the change that was made under this id, with its end
-- ARGV[1] the change, in words
-- ARGV[2] empty; or, if the change is repeated after a failover, the end that it had: nothing later is changed
-- ARGV[3] how long the change is remembered
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lastEnd = tonumber(ARGV[2])

local madeBefore, endBefore = string.match(redis.call('GET', KEYS[2]) or '', '^(.*) (%d+)$')
if madeBefore then
  -- A repetition writes in any case, because WAIT waits for the last write.
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
  if madeBefore ~= ARGV[1] then return { 'reused' } end
  return { 'repeated', tonumber(endBefore) }
end

local function remember(ends)
  redis.call('SET', KEYS[2], string.format('%s %d', ARGV[1], ends), 'PX', ARGV[3])
end

-- The fields of the hash, or nil if it holds something else.
local function fieldsOf(...)
  local values = redis.pcall('HMGET', KEYS[1], ...)
  if not values.err then return values end
  if not string.find(values.err, 'WRONGTYPE', 1, true) then error(values.err) end
end

