-- Decides requests of many consumers in one call: the twin of src/admit/decide.ts, line for line where it can be.
-- Change both or none; test/admit/decide-twins.test.ts holds them together.
--
-- KEYS  one hash per consumer
-- ARGV  numbers as texts, parted by spaces, because each argument costs the client and Redis more than its digits do:
--       first for so many keys in turn as it says: rule, n, cost, how many; until all keys are told. Rule 2 is ARGV[2].
--       Then the rules: after, within, first, factor, longest, forget (after 0: no bans), then per window
--       its index (1 second, 2 minute, 3 hour, 4 day), length, limit. All times in milliseconds.
-- reply numbers in one text, parted by spaces, for the same reason: now, then per key how many numbers tell of it (0: that
--       hash holds something foreign), and these: admitted, then per window used, end; and only where there are strikes
--       or there is a ban: bannedFrom, strikes, their end, ban number, its end, its window, 1 where it was made here
--       (else 0).
--
-- Fields of the hash, short because a million of them are kept:
--   s m h d  used in a window     S M H D  its end     x X  strikes, their end     b B w  ban number, its end, its window
local USED = { 's', 'm', 'h', 'd' }
local ENDS = { 'S', 'M', 'H', 'D' }

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function numbersIn(text)
  local numbers = {}
  for word in string.gmatch(text, '%S+') do numbers[#numbers + 1] = tonumber(word) end
  return numbers
end

-- How many numbers, and these. As %d, because a number by itself becomes a text with fourteen digits at most.
local function textOf(numbers)
  return string.format('%d' .. string.rep(' %d', #numbers), #numbers, unpack(numbers))
end

local function banLength(rule, number)
  local first, factor, longest = rule.first, rule.factor, rule.longest
  if factor == 1 then return math.min(first, longest) end
  local length = first
  for _ = 2, number do
    if length >= longest then break end
    length = length * factor
  end
  return math.min(math.floor(length), longest)
end

local function readRule(text)
  local told = numbersIn(text)
  local rule = {
    after = told[1],
    within = told[2],
    first = told[3],
    factor = told[4],
    longest = told[5],
    forget = told[6],
    windows = {},
    fields = { 'x', 'X', 'b', 'B', 'w' },
  }
  for i = 1, (#told - 6) / 3 do
    local at = 4 + 3 * i
    rule.windows[i] = { index = told[at], length = told[at + 1], limit = told[at + 2] }
    rule.fields[4 + 2 * i] = USED[told[at]]
    rule.fields[5 + 2 * i] = ENDS[told[at]]
  end
  return rule
end

local function decide(key, rule, n, cost)
  local after, within, forget, windows = rule.after, rule.within, rule.forget, rule.windows

  local values = redis.pcall('HMGET', key, unpack(rule.fields))
  if values.err then
    if string.find(values.err, 'WRONGTYPE', 1, true) then return '0' end
    return values
  end
  for i, value in ipairs(values) do
    local number = tonumber(value or 0)
    if number == nil or number < 0 or number > 9007199254740992 or number ~= math.floor(number) then return '0' end
    values[i] = number
  end
  if values[5] > #USED or (values[3] > 0 and values[5] == 0) then return '0' end

  local changes = {}
  local function put(field, value)
    changes[#changes + 1] = field
    changes[#changes + 1] = value
  end

  -- What has ended is gone, for good, and nothing ends later than its own length from now, a ban no later than its
  -- rung's: the clock may jump.
  local strikes, strikesEnd, number, banEnd, banWindow = values[1], values[2], values[3], values[4], values[5]
  if number > 0 then
    if now >= banEnd + (after == 0 and 0 or forget) then
      number, banEnd, banWindow = 0, 0, 0
      put('b', 0)
      put('B', 0)
    elseif after > 0 and now < banEnd then
      local latest = now + banLength(rule, number)
      if banEnd > latest then
        banEnd = latest
        put('B', banEnd)
      end
    end
  end
  local room = n
  local hopeless = false
  -- By how much the clock was set back at least, as far as the windows tell.
  local back = 0
  for i, window in ipairs(windows) do
    window.used, window.ends = values[4 + 2 * i], values[5 + 2 * i]
    if now >= window.ends then
      if window.ends > 0 then
        window.used, window.ends = 0, 0
        put(USED[window.index], 0)
        put(ENDS[window.index], 0)
      end
    elseif window.ends > now + window.length then
      back = math.max(back, window.ends - now - window.length)
      window.ends = now + window.length
      put(ENDS[window.index], window.ends)
    end
    if window.limit < cost then hopeless = true end
    room = math.min(room, math.floor((window.limit - window.used) / cost))
  end
  -- Strikes move along with the windows, because they end with the one that refused.
  if strikes > 0 then
    local ends = math.min(strikesEnd - back, now + within)
    if after == 0 or now >= ends then
      strikes, strikesEnd = 0, 0
      put('x', 0)
      put('X', 0)
    elseif ends < strikesEnd then
      strikesEnd = ends
      put('X', strikesEnd)
    end
  end

  local admitted, bannedFrom, imposes = 0, n, 0
  local lasting = false
  if number > 0 and now < banEnd then
    bannedFrom = 0
  else
    admitted = math.max(room, 0)
    if admitted > 0 then
      for _, window in ipairs(windows) do
        window.used = window.used + admitted * cost
        put(USED[window.index], window.used)
        if window.ends == 0 then
          window.ends = now + window.length
          put(ENDS[window.index], window.ends)
          lasting = true
        end
      end
    end
    local refused = n - admitted
    if refused > 0 and after > 0 and not hopeless then
      local last, lastEnd = 0, 0
      for _, window in ipairs(windows) do
        if window.limit - window.used < cost and window.ends >= lastEnd then
          last, lastEnd = window.index, window.ends
        end
      end
      if strikes + refused >= after then
        bannedFrom = admitted + math.max(after - strikes - 1, 0)
        number = number + 1
        imposes = 1
        banEnd = now + banLength(rule, number)
        banWindow = last
        strikes, strikesEnd = 0, 0
        put('b', number)
        put('B', banEnd)
        put('w', banWindow)
      else
        if strikes == 0 then strikesEnd = now + within end
        strikes = strikes + refused
        strikesEnd = math.min(strikesEnd, lastEnd)
      end
      put('x', strikes)
      put('X', strikesEnd)
      lasting = true
    end
  end

  if n > 0 and #changes > 0 then
    -- The first write of the script: where the store refuses writes, nothing has happened yet.
    local written = redis.pcall('HSET', key, unpack(changes))
    if type(written) == 'table' and written.err then return written end
    if lasting then
      local expires = math.max(strikesEnd, number > 0 and banEnd + forget or 0, now + redis.call('PTTL', key))
      for _, window in ipairs(windows) do expires = math.max(expires, window.ends) end
      redis.call('PEXPIREAT', key, expires)
    end
  end

  local told = { admitted }
  for _, window in ipairs(windows) do
    told[#told + 1] = window.used
    told[#told + 1] = window.ends
  end
  if strikes > 0 or number > 0 then
    for _, one in ipairs({ bannedFrom, strikes, strikesEnd, number, banEnd, banWindow, imposes }) do
      told[#told + 1] = one
    end
  end
  return textOf(told)
end

local rules = {}
local replies = { string.format('%d', now) }
local told = 0
local runs = numbersIn(ARGV[1])
for at = 1, #runs, 4 do
  local rule, n, cost = runs[at], runs[at + 1], runs[at + 2]
  rules[rule] = rules[rule] or readRule(ARGV[rule])
  for _ = 1, runs[at + 3] do
    told = told + 1
    local reply = decide(KEYS[told], rules[rule], n, cost)
    if type(reply) == 'table' and reply.err then return reply end
    replies[told + 1] = reply
  end
end
return table.concat(replies, ' ')
