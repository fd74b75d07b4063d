-- Decides requests of many consumers in one call. The twin of src/admit/decide.ts, line for line where possible: change
-- both or neither. test/admit/decide-twins.test.ts compares them. windows.lua and history.lua precede it.
--
-- KEYS  for each consumer its hash, with fields as in windows.lua; and behind that its history, if the rule asks for it
-- ARGV  numbers in text, separated by spaces, because each argument costs the client and Redis more than its digits.
--       ARGV[1]: runs of keys, in the order of KEYS, each as: rule, n, cost, number of keys. Rule 2 is ARGV[2].
--       The other arguments are rules: 1 if a history is kept (2: of all requests, admitted or not; 0: none); after,
--       within, first, factor, longest, forget (after 0: no bans); then for each window its index (1 second … 6 month) + 10
--       times its slices per length + 1000 times how many instants follow, and its limit. The instants of a calendar window
--       are those at which a few periods begin, and the end of the last. All times in milliseconds.
--       Behind them, if a history is kept, the gateway's clock as in history.lua.
-- reply numbers in one text, separated by spaces for the same reason: now; then for each key how many numbers follow for
--       it (0: the hash holds foreign values), and these: admitted; for each window used and end, or for a sliding one how
--       many counts it has and, if any, the beginning of slice 0, the number of the first slice and the counts; then only if
--       there are strikes, a ban or top-ups: bannedFrom, strikes, their end, ban number, its end, its window, 1 if this call
--       imposed it (else 0); and for each top-up in force its window, amount and end.
--       Now alone: nothing was decided, because the instants of a calendar window do not include now.
local time = redis.call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local hour = floor(now / 3600000)

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
  if factor == 1 then return min(first, longest) end
  local length = first
  for _ = 2, number do
    if length >= longest then break end
    length = length * factor
  end
  return min(floor(length), longest)
end

-- Nil if the instants of a calendar window do not include now.
local function readRule(text)
  local numbers = numbersIn(text)
  local rule = {
    history = numbers[1],
    after = numbers[2],
    within = numbers[3],
    first = numbers[4],
    factor = numbers[5],
    longest = numbers[6],
    forget = numbers[7],
    windows = {},
    fields = { 'x', 'X', 'b', 'B', 'w', 't' },
  }
  local at = 8
  while at <= #numbers do
    local index, instants = numbers[at] % 10, floor(numbers[at] / 1000)
    local window = { index = index, planned = numbers[at + 1], per = floor(numbers[at] / 10) % 100 }
    if instants == 0 then
      window.latest = now + LENGTHS[index]
    else
      if now < numbers[at + 2] then return nil end
      for i = at + 3, at + 1 + instants do
        if now < numbers[i] then
          window.latest = numbers[i]
          break
        end
      end
      if window.latest == nil then return nil end
    end
    rule.windows[#rule.windows + 1] = window
    rule.fields[#rule.fields + 1] = USED[index]
    rule.fields[#rule.fields + 1] = ENDS[index]
    at = at + 2 + instants
  end
  return rule
end

-- The first instant at which `cost` fits into a window: the twin of `fitsAtMs` in src/admit/windows.ts.
local function fitsAt(window, cost)
  local slices = window.slices
  if slices == nil then return window.ends end
  local used = window.used
  for i, left in ipairs(slices.counts) do
    if left > 0 then
      local leaves = sliding().leavesAt(window, slices.first + i - 1)
      used = used - left
      local hasEnded = window.topUpEnd ~= nil and leaves >= window.topUpEnd
      if used + cost <= window.limit - (hasEnded and window.topUp or 0) then return leaves end
    end
  end
  return window.ends
end

local function decide(key, rule, n, cost, historyKey)
  local after, within, forget, windows = rule.after, rule.within, rule.forget, rule.windows

  local values = redis.pcall('HMGET', key, unpack(rule.fields))
  if values.err then
    if string.find(values.err, 'WRONGTYPE', 1, true) then return '0' end
    return values
  end
  for i = 1, 5 do
    local number = tonumber(values[i] or 0)
    if number == nil or number < 0 or number > MOST or number ~= floor(number) then return '0' end
    values[i] = number
  end
  if values[5] > #USED or (values[3] > 0 and values[5] == 0) then return '0' end
  local topUps = nil
  if values[6] then
    topUps = topUpsIn(values[6])
    if topUps == nil then return '0' end
  end

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
  for i = 1, #windows do
    local window = windows[i]
    local windowBack = readWindow(window, values[5 + 2 * i], values[6 + 2 * i], now)
    if windowBack == nil then return '0' end
    if windowBack > back then back = windowBack end
    window.limit, window.topUp, window.topUpEnd = window.planned, nil, nil
    for at = 1, topUps and #topUps or 0, 3 do
      if window.index == topUps[at] and now < topUps[at + 2] then
        window.topUp, window.topUpEnd = topUps[at + 1], topUps[at + 2]
        window.limit = window.limit + window.topUp
      end
    end
    if window.limit < cost then cost_exceeds_limit = true end
    room = min(room, floor((window.limit - window.used) / cost))
  end
  -- Strikes end with the window that refused, so their end moves back by the same amount.
  if strikes > 0 then
    local ends = min(strikesEnd - back, now + within)
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
    admitted = max(room, 0)
    if admitted > 0 then
      for i = 1, #windows do
        local window = windows[i]
        local before = window.ends
        countIn(window, now, admitted * cost)
        if window.ends > before then lasting = true end
      end
    end
    local refused = n - admitted
    if refused > 0 and after > 0 and not cost_exceeds_limit then
      local last, lastEnd = 0, 0
      for _, window in ipairs(windows) do
        if window.limit - window.used < cost then
          local ends = fitsAt(window, cost)
          if ends >= lastEnd then last, lastEnd = window.index, ends end
        end
      end
      if strikes + refused >= after then
        bannedFrom = admitted + max(after - strikes - 1, 0)
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
        strikesEnd = min(strikesEnd, lastEnd)
      end
      put('x', strikes)
      put('X', strikesEnd)
      lasting = true
    end
  end
  for i = 1, #windows do
    local window = windows[i]
    -- Slices become another kind when something is counted. If refusals did it, a client that polls two gateways that are in
    -- the middle of a reload would move its count along with the present, and never be admitted again.
    if window.isConverted and admitted > 0 or window.isChanged and not window.isConverted then
      putWindow(changes, window)
    end
  end

  if n > 0 and #changes > 0 then
    -- The first write of the script: if the store refuses writes, nothing has been done for this key.
    local written = redis.pcall('HSET', key, unpack(changes))
    if type(written) == 'table' and written.err then return written end
    if lasting then
      local expires = max(strikesEnd, number > 0 and banEnd + forget or 0, now + redis.call('PTTL', key))
      for i = 1, #windows do expires = max(expires, windows[i].ends) end
      redis.call('PEXPIREAT', key, expires)
    end
  end

  local recorded = cost * (rule.history == 2 and n or admitted)
  if historyKey and recorded > 0 then
    local err = history().admitted(historyKey, hour, recorded)
    if err then return err end
  end

  local reply = { admitted }
  local hasTopUps = false
  for i = 1, #windows do
    local window = windows[i]
    local slices = window.slices
    if window.per == 0 then
      reply[#reply + 1] = window.used
      reply[#reply + 1] = window.ends
    elseif slices == nil then
      reply[#reply + 1] = 0
    else
      reply[#reply + 1] = #slices.counts
      reply[#reply + 1] = slices.starts
      reply[#reply + 1] = slices.first
      for _, count in ipairs(slices.counts) do reply[#reply + 1] = count end
    end
    hasTopUps = hasTopUps or window.topUp ~= nil
  end
  if strikes > 0 or number > 0 or hasTopUps then
    for _, value in ipairs({ bannedFrom, strikes, strikesEnd, number, banEnd, banWindow, imposes }) do
      reply[#reply + 1] = value
    end
    for _, window in ipairs(windows) do
      if window.topUp then
        for _, value in ipairs({ window.index, window.topUp, window.topUpEnd }) do reply[#reply + 1] = value end
      end
    end
  end
  return textOf(reply)
end

local rules = {}
local arguments = readGatewayClock(time[1])
for i = 2, arguments do
  rules[i] = readRule(ARGV[i])
  if rules[i] == nil then return string.format('%d', now) end
end
local replies = { string.format('%d', now) }
local at = 0
local runs = numbersIn(ARGV[1])
for i = 1, #runs, 4 do
  local rule, n, cost = rules[runs[i]], runs[i + 1], runs[i + 2]
  for _ = 1, runs[i + 3] do
    at = at + 1
    local key, historyKey = KEYS[at], nil
    if rule.history > 0 then
      at = at + 1
      historyKey = KEYS[at]
    end
    local reply = decide(key, rule, n, cost, historyKey)
    if type(reply) == 'table' and reply.err then return reply end
    replies[#replies + 1] = reply
  end
end
return table.concat(replies, ' ')
