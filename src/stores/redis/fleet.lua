-- One exchange of a gateway with the others: leaves its report, questions and answers, and fetches theirs.
--
-- KEYS[1] sorted set: gateways by the time of their last report, Unix milliseconds
-- KEYS[2] hash: the report of each
-- KEYS[3] hash: open questions, each with the time at which it was asked last
-- KEYS[4] hash: by name, when its sessions have ended, Unix milliseconds
-- KEYS[5] list: the answers to this gateway
-- KEYS[6..] lists: answers to others, one for each of the last arguments
-- ARGV[1] the gateway; [2] its report, empty to leave the earlier one; [3] 1 if it reads the reports; [4] how long reports are
-- shown; [5] kept; [6] how long questions are kept; [7] most of them; [8] most answers of a list; [9] how long ends are kept;
-- [10] most of them; [11] how many questions follow, each an id and a text; then how many ends, each a name and
-- how many milliseconds ago that was; then the answers
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local shown, kept, asked, lasting = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[9])

-- All fields of a hash. HGETALL would be one more command for the user of the gateways.
local function fieldsOf(key)
  local fields, cursor = {}, '0'
  repeat
    local page = redis.call('HSCAN', key, cursor, 'COUNT', 1000)
    cursor = page[1]
    for i = 1, #page[2], 2 do fields[page[2][i]] = page[2][i + 1] end
  until cursor == '0'
  return fields
end

if ARGV[2] ~= '' then
  redis.call('ZADD', KEYS[1], now, ARGV[1])
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
  for _, key in ipairs({ KEYS[1], KEYS[2] }) do redis.call('PEXPIRE', key, kept) end
end
local oldest = redis.call('ZRANGE', KEYS[1], 0, 9, 'WITHSCORES')
for i = 1, #oldest, 2 do
  local at = tonumber(oldest[i + 1])
  -- A report of the future is one from before the clock was set back.
  if now - at > kept or at - now > kept then
    redis.call('ZREM', KEYS[1], oldest[i])
    redis.call('HDEL', KEYS[2], oldest[i])
  end
end

local at = 12
local count = tonumber(ARGV[11])
for _ = 1, count do
  if redis.call('HEXISTS', KEYS[3], ARGV[at]) == 1 or redis.call('HLEN', KEYS[3]) < tonumber(ARGV[7]) then
    redis.call('HSET', KEYS[3], ARGV[at], string.format('%.0f ', now) .. ARGV[at + 1])
    redis.call('PEXPIRE', KEYS[3], asked)
  end
  at = at + 2
end
local questions = {}
for id, value in pairs(fieldsOf(KEYS[3])) do
  local since, text = string.match(value, '^(%d+) (.*)$')
  if since and math.abs(now - since) <= asked then
    questions[#questions + 1] = id
    questions[#questions + 1] = text
  else
    redis.call('HDEL', KEYS[3], id)
  end
end

-- When the sessions of a name have ended; nil if no gateway has written the value, or one from before the clock was
-- set back. Such a one would hide all later ends of that name.
local function endFrom(value)
  local ended = tonumber(value)
  return ended and now - ended <= lasting and ended - now <= kept and ended or nil
end

count = tonumber(ARGV[at])
at = at + 1
for _ = 1, count do
  local ended = endFrom(now - math.max(tonumber(ARGV[at + 1]), 0))
  local before = endFrom(redis.call('HGET', KEYS[4], ARGV[at]) or '')
  if ended and (before or redis.call('HLEN', KEYS[4]) < tonumber(ARGV[10])) then
    redis.call('HSET', KEYS[4], ARGV[at], string.format('%.0f', math.max(before or 0, ended)))
    redis.call('PEXPIRE', KEYS[4], lasting)
  end
  at = at + 2
end
local ends = {}
for name, value in pairs(fieldsOf(KEYS[4])) do
  local ended = endFrom(value)
  if ended then
    ends[#ends + 1] = name
    ends[#ends + 1] = string.format('%.0f', ended)
  else
    redis.call('HDEL', KEYS[4], name)
  end
end

for i = 6, #KEYS do
  redis.call('LPUSH', KEYS[i], ARGV[at])
  redis.call('LTRIM', KEYS[i], 0, tonumber(ARGV[8]) - 1)
  redis.call('PEXPIRE', KEYS[i], 10000)
  at = at + 1
end
local answers = redis.call('LRANGE', KEYS[5], 0, -1)
if #answers > 0 then redis.call('DEL', KEYS[5]) end

local reports = {}
if ARGV[3] == '1' then
  local seen = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
  for i = 1, #seen, 2 do
    if math.abs(now - tonumber(seen[i + 1])) <= shown then
      local report = redis.call('HGET', KEYS[2], seen[i])
      if report then
        for _, value in ipairs({ seen[i], seen[i + 1], report }) do reports[#reports + 1] = value end
      end
    end
  end
end
return { now, reports, questions, answers, ends }
