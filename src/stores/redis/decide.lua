-- Decides requests of many consumers in one call. The twin of src/admit/decide.ts, line for line where possible: change
-- both or neither. test/admit/decide-twins.test.ts compares them.
--
-- KEYS  one hash per consumer
-- ARGV  numbers in text, separated by spaces, because each argument costs the client and Redis more than its digits.
--       ARGV[1]: runs of keys, in the order of KEYS, each as: rule, n, cost, number of keys. Rule 2 is ARGV[2].
--       The other arguments are rules: after, within, first, factor, longest, forget (after 0: no bans), then for each
--       window its index (1 second, 2 minute, 3 hour, 4 day), length, limit. All times in milliseconds.
-- reply numbers in one text, separated by spaces for the same reason: now; then for each key how many numbers follow for
--       it (0: the hash holds foreign values), and these: admitted, then for each window used, end; and only if there are
--       strikes or a ban: bannedFrom, strikes, their end, ban number, its end, its window, 1 if this call imposed it
--       (else 0).
--
-- Fields of the hash, with short names because there may be a million hashes:
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

-- The count of the numbers, then the numbers. With %d, because Lua's own conversion keeps fourteen digits only.
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
  local numbers = numbersIn(text)
  local rule = {
    after = numbers[1],
    within = numbers[2],
    first = numbers[3],
    factor = numbers[4],
    longest = numbers[5],
    forget = numbers[6],
    windows = {},
    fields = { 'x', 'X', 'b', 'B', 'w' },
  }
  for i = 1, (#numbers - 6) / 3 do
    local at = 4 + 3 * i
    rule.windows[i] = { index = numbers[at], length = numbers[at + 1], limit = numbers[at + 2] }
    rule.fields[4 + 2 * i] = USED[numbers[at]]
    rule.fields[5 + 2 * i] = ENDS[numbers[at]]
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

  -- The clock may jump. Everything that has ended is removed for good, no window or strike lasts longer than its own length
  -- from now, and no ban longer than its rung's length.
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
  local cost_exceeds_limit = false
  -- The least amount by which the clock was set back, according to the windows.
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
    if window.limit < cost then cost_exceeds_limit = true end
    room = math.min(room, math.floor((window.limit - window.used) / cost))
  end
  -- Strikes end with the window that refused, so their end moves back by the same amount.
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
    if refused > 0 and after > 0 and not cost_exceeds_limit then
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
    -- The first write of the script: if the store refuses writes, nothing has been done for this key.
    local written = redis.pcall('HSET', key, unpack(changes))
    if type(written) == 'table' and written.err then return written end
    if lasting then
      local expires = math.max(strikesEnd, number > 0 and banEnd + forget or 0, now + redis.call('PTTL', key))
      for _, window in ipairs(windows) do expires = math.max(expires, window.ends) end
      redis.call('PEXPIREAT', key, expires)
    end
  end

  local reply = { admitted }
  for _, window in ipairs(windows) do
    reply[#reply + 1] = window.used
    reply[#reply + 1] = window.ends
  end
  if strikes > 0 or number > 0 then
    for _, value in ipairs({ bannedFrom, strikes, strikesEnd, number, banEnd, banWindow, imposes }) do
      reply[#reply + 1] = value
    end
  end
  return textOf(reply)
end

local rules = {}
local replies = { string.format('%d', now) }
local answered = 0
local runs = numbersIn(ARGV[1])
for at = 1, #runs, 4 do
  local rule, n, cost = runs[at], runs[at + 1], runs[at + 2]
  rules[rule] = rules[rule] or readRule(ARGV[rule])
  for _ = 1, runs[at + 3] do
    answered = answered + 1
    local reply = decide(KEYS[answered], rules[rule], n, cost)
    if type(reply) == 'table' and reply.err then return reply end
    replies[answered + 1] = reply
  end
end
return table.concat(replies, ' ')
