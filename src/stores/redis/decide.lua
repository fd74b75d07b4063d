-- Decides requests of many consumers in one call. The twin of src/engine/decide.ts, line for line where possible: change
-- both or neither. test/admit/budget-twins.test.ts compares them. windows.lua and history.lua precede it.
--
-- A consumer has an account for each budget that its requests charge: its own, and those of its customer and of groups of
-- routes. A request is counted in all of them or in none.
--
-- KEYS  for each consumer the hashes of its accounts in the order of the budgets, its own first, with fields as in windows.lua; behind
--       them its history, if the rule asks for it, and that of its customer, and the same for each unit of the rule
-- ARGV  numbers in text, separated by spaces, because each argument costs the client and Redis more than its digits.
--       ARGV[1]: runs of consumers, in the order of KEYS, each as: rule, n, cost, number of consumers; under a rule that
--       bounds requests in flight the run is of one consumer, and how many this process has in flight in each of its
--       accounts before this call follows (-1 where the store is asked how many all have). Behind that, under a rule with
--       budgets in units of their own, what each request takes of each unit. Rule 2 is ARGV[2].
--       A number of consumers of 0 means one, with what its gateway says about leases, directly behind the 0: how many units it
--       would like to borrow, under which id; 1 if nothing waits for units that may be returned (else 0); the id of a lease
--       that it returns (0 for none), how many units of it are unused, and if any are, where each window of each account
--       counted them (`placeOf`).
--       The other arguments are rules: how many histories are kept (0 to 2), + 10 if of all requests, admitted or not; after, within,
--       first, factor, longest, forget (after 0: no bans); the account that has the strikes and bans (0 the own one); then for each
--       budget the number of its unit (0 if it counts requests), how many requests may be in flight (-1 for any number), how many
--       numbers its windows take, and for each window its index (1 second … 6 month) + 10 times its slices per length + 1000 times
--       how many instants follow, and its limit. The instants of a calendar window are those at which a few periods begin, and
--       the end of the last. All times in milliseconds. Then, each with a `=` before it, the names of all budgets but the own, and
--       that of this process, if requests in flight are bounded.
--       Behind the rules, if a history is kept, the gateway's clock as in history.lua.
-- reply numbers in one text, separated by spaces for the same reason: now; then for each consumer how many numbers follow
--       for it (0: a hash holds foreign values), and these: admitted; for each window used and end, or for a sliding one how
--       many counts it has and, if any, the beginning of slice 0, the number of the first slice and the counts; for each
--       account with a bound how many requests are in flight; then only if there are strikes, a ban or top-ups, or no room in
--       flight, or if units are lent: bannedFrom, 1 if this call imposed a ban (else 0), 1 if too many were in flight
--       (else 0), for how long the requests that were not admitted may wait for units that others return (0: they are refused),
--       1 if others may return units, how many units this call has lent, and for how long; for each account strikes, their end,
--       ban number, its end, its window + 10 times its budget (0 the own one); and for each top-up in force its window + 10 times
--       its account, its amount and its end.
--       At the end, if nothing was recorded in a history because its key holds something else, which of KEYS that is.
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

-- Appends the windows that stand in `numbers` from `at` to before `ends` to an account. False if the instants of a calendar
-- window do not include now.
local function readWindows(account, numbers, at, ends)
  local windows, fields = account.windows, account.fields
  while at < ends do
    local index, instants = numbers[at] % 10, floor(numbers[at] / 1000)
    local window = { index = index, planned = numbers[at + 1], per = floor(numbers[at] / 10) % 100 }
    if instants == 0 then
      window.latest = now + LENGTHS[index]
    else
      if now < numbers[at + 2] then return false end
      for i = at + 3, at + 1 + instants do
        if now < numbers[i] then
          window.latest = numbers[i]
          break
        end
      end
      if window.latest == nil then return false end
    end
    windows[#windows + 1] = window
    fields[#fields + 1] = USED[index]
    fields[#fields + 1] = ENDS[index]
    at = at + 2 + instants
  end
  return true
end

-- Nil if the instants of a calendar window do not include now.
local function readRule(text)
  local numbers, names, count = {}, {}, 0
  for word in string.gmatch(text, '%S+') do
    local number = tonumber(word)
    if number then
      count = count + 1
      numbers[count] = number
    else
      names[#names + 1] = string.sub(word, 2)
    end
  end
  local rule = {
    histories = numbers[1] % 10,
    recordsAll = numbers[1] >= 10,
    after = numbers[2],
    within = numbers[3],
    first = numbers[4],
    factor = numbers[5],
    longest = numbers[6],
    forget = numbers[7],
    struck = 1 + numbers[8],
    units = 0,
    accounts = {},
    budgets = {},
  }
  local at, size = 9, 0
  while at <= count do
    local account = { fields = { 'x', 'X', 'b', 'B', 'w', 't', 'l' }, windows = {}, unit = numbers[at] }
    local most, windowsAt = numbers[at + 1], at + 3
    at = windowsAt + numbers[at + 2]
    if not readWindows(account, numbers, windowsAt, at) then return nil end
    rule.units = max(rule.units, account.unit)
    if most >= 0 then
      account.most, rule.isBounded = most, true
      account.fields[#account.fields + 1] = 'f'
    end
    size = size + 1
    rule.accounts[size] = account
  end
  for i = 1, size - 1 do rule.budgets[names[i]], rule.budgets[i] = i, names[i] end
  rule.holder = names[size]
  return rule
end

-- The first instant at which `cost` fits into a window: the twin of `fitsAtMs` in src/engine/counting.ts.
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

local function put(account, field, value)
  if account.onlyReturns then return end
  local changes = account.changes
  changes[#changes + 1] = field
  changes[#changes + 1] = value
end

-- The ban of an account. The clock may jump: no ban lasts longer from now than its rung's length, from the next request on. A mere
-- reading stores nothing, and an end that is made of the present would be later at each reading. `after` is 0 for an account that
-- gets no bans.
local function readBan(account, key, rule, after, values)
  local number, ends, window = values[3], values[4], values[5]
  if number > 0 then
    if now >= ends + (after == 0 and 0 or rule.forget) then
      number, ends, window = 0, 0, 0
      put(account, 'b', 0)
      put(account, 'B', 0)
    elseif after > 0 and now < ends and not account.onlyReturns then
      local latest = now + banLength(rule, number)
      if ends > latest then
        ends = latest
        put(account, 'B', ends)
      end
    end
  end
  account.number, account.banEnd, account.banWindow = number, ends, window
  -- Asked for by itself, because nearly no account has a ban.
  account.banBudget = number > 0 and rule.budgets[redis.call('HGET', key, 'W') or ''] or 0
end

-- How many requests this call has admitted to each account so far, by the name of its hash: `held` does not contain them.
local begun = {}

-- How many requests of an account are in flight, those of other processes among them: the field is a list of processes, how
-- many each had, and until when that holds. False if it is foreign.
local function readInFlight(account, rule, text, held)
  local others, inFlight = {}, held or 0
  for holder, count, ends in string.gmatch(text or '', '(%S+) (%d+) (%d+)') do
    -- Without `held`, those of this process are asked for as well.
    if (holder ~= rule.holder or held == nil) and tonumber(ends) > now then
      -- After the clock was set back, what a killed process had in flight ends no later either.
      others[#others + 1] = string.format('%s %s %d', holder, count, min(tonumber(ends), now + TICKET_MS))
      inFlight = inFlight + count
    end
  end
  account.others, account.held, account.inFlight = others, held, inFlight
end

-- Adds what was spent to all windows of an account.
local function countAll(account, spent)
  for _, window in ipairs(account.windows) do
    local before = window.ends
    countIn(window, now, spent)
    if window.ends > before then account.isLasting = true end
  end
end

-- What only accounts of which units are lent need: the twin of src/engine/leasing.ts. Made as the functions for sliding windows.
local NONE = {}

local function makeLeasing()
  local leasing = {}
  local MIN_LEASE_MS, HOUR_MS = 10, 3600000
  local SHARE, MIN_UNITS, MIN_REQUESTS = 16, 4, 2

  local function keep(account, leases)
    account.leases = leases
    account.changes[#account.changes + 1] = 'l'
    account.changes[#account.changes + 1] = leasesText(leases)
  end

  -- Whether units of an account may still come back, be it too late for a request to wait for them.
  function leasing.mayReturn(account)
    for _, lease in ipairs(account.leases) do
      if lease.units ~= 0 then return true end
    end
    return false
  end

  -- Calls back what is lent of these accounts, unless that was done a moment ago, and lends nothing more for a while.
  function leasing.callBack(accounts, keys)
    for i, account in ipairs(accounts) do
      if leasing.mayReturn(account) and not isCalledBack(account.leases, now) then
        keep(account, withNotice(account.leases, now))
        redis.pcall('PUBLISH', RECALLS, keys[i])
      end
    end
  end

  -- Takes back what is unused of a lease. Returns how many units, and the hour in which they were lent; nil if the lease is gone.
  -- `places`: where the windows of this account counted it.
  function leasing.takeBack(account, id, unused, places)
    for i, lease in ipairs(account.leases) do
      if lease.id == id then
        local left = {}
        for j, other in ipairs(account.leases) do
          if j ~= i then left[#left + 1] = other end
        end
        keep(account, left)
        unused = min(unused, math.abs(lease.units))
        for j, window in ipairs(unused > 0 and account.windows or {}) do
          if window.ends > 0 and giveBack(window, places[j], unused) then window.isChanged = true end
        end
        return unused, floor((lease.ends - 1) / HOUR_MS)
      end
    end
    return nil
  end

  -- Lends units of all accounts. Returns how many, and for how long.
  function leasing.lend(accounts, id, most, cost)
    local room, time = math.huge, min(LEASE_MS, HOUR_MS - now % HOUR_MS)
    for _, account in ipairs(accounts) do
      if account.strikes > 0 or #account.leases >= MAX_LEASES then return 0, 0 end
      for _, lease in ipairs(account.leases) do
        if lease.units == 0 and now < lease.ends then return 0, 0 end
      end
      for _, window in ipairs(account.windows) do
        if window.ends == 0 then return 0, 0 end
        room = min(room, window.limit - window.used)
        time = min(time, window.ends - (window.slices and LENGTHS[window.index] or 0) - now)
        if window.topUpEnd then time = min(time, window.topUpEnd - now) end
      end
    end
    local units = min(most, floor(room / SHARE))
    if units < max(MIN_UNITS, MIN_REQUESTS * cost) or time < MIN_LEASE_MS then return 0, 0 end
    for _, account in ipairs(accounts) do
      countAll(account, units)
      local leases = { unpack(account.leases) }
      leases[#leases + 1] = { id = id, units = #account.windows > 0 and units or -units, ends = now + time }
      keep(account, leases)
      -- What returns must find the lease, also if its windows have ended.
      account.isLasting, account.leasesEnd = true, now + time + KNOWN_FOR_MS
    end
    return units, time
  end

  return leasing
end

local madeLeasing
local function leasing()
  madeLeasing = madeLeasing or makeLeasing()
  return madeLeasing
end

-- Reads an account, and leaves of it what has not ended by now. Returns the least amount by which the clock was set back,
-- according to the windows; or nil and what to reply.
local function readAccount(account, key, rule, after, held)
  local values = redis.pcall('HMGET', key, unpack(account.fields))
  if values.err then
    if string.find(values.err, 'WRONGTYPE', 1, true) then return nil, '0' end
    return nil, values
  end
  if not readBans(values) then return nil, '0' end
  local topUps = nil
  if values[6] then
    topUps = topUpsIn(values[6])
    if topUps == nil then return nil, '0' end
  end
  account.changes = {}
  account.leases, account.leasesEnd = values[7] and leasesIn(values[7], now) or NONE, 0
  readBan(account, key, rule, after, values)
  account.strikes, account.strikesEnd = values[1], values[2]
  if account.most then readInFlight(account, rule, values[#account.fields], held and held + (begun[key] or 0)) end
  local windows, back = account.windows, 0
  for i = 1, #windows do
    local window = windows[i]
    local windowBack = readWindow(window, values[6 + 2 * i], values[7 + 2 * i], now)
    if windowBack == nil then return nil, '0' end
    if windowBack > back then back = windowBack end
    window.limit, window.topUp, window.topUpEnd = window.planned, nil, nil
    for at = 1, topUps and #topUps or 0, 3 do
      if window.index == topUps[at] and now < topUps[at + 2] then
        window.topUp, window.topUpEnd = topUps[at + 1], topUps[at + 2]
        window.limit = window.limit + window.topUp
      end
    end
  end
  return back
end

-- Strikes end with the window that refused. If the clock was set back, their end moves back by the same amount.
local function readStrikes(account, rule, after, back)
  if account.strikes == 0 then return end
  local ends = min(account.strikesEnd - back, now + rule.within)
  if after == 0 or now >= ends then
    account.strikes, account.strikesEnd = 0, 0
    put(account, 'x', 0)
    put(account, 'X', 0)
  elseif ends < account.strikesEnd then
    account.strikesEnd = ends
    put(account, 'X', ends)
  end
end

-- Counts refused requests as strikes, or imposes the ban that they lead to. Returns bannedFrom, and 1 if a ban was imposed.
local function strike(rule, n, admitted)
  local accounts, struck = rule.accounts, rule.accounts[rule.struck]
  local last, lastBudget, lastEnd = 0, 0, 0
  for i = 1, #accounts do
    local needed = max(accounts[i].cost, 1)
    for _, window in ipairs(accounts[i].windows) do
      if window.limit - window.used < needed then
        local ends = fitsAt(window, needed)
        if ends >= lastEnd then last, lastBudget, lastEnd = window.index, i - 1, ends end
      end
    end
  end
  struck.isLasting = true
  local strikes, refused = struck.strikes, n - admitted
  if strikes + refused < rule.after then
    if strikes == 0 then struck.strikesEnd = now + rule.within end
    struck.strikes = strikes + refused
    struck.strikesEnd = min(struck.strikesEnd, lastEnd)
    put(struck, 'x', struck.strikes)
    put(struck, 'X', struck.strikesEnd)
    return n, 0
  end
  struck.number = struck.number + 1
  struck.banEnd = now + banLength(rule, struck.number)
  struck.banWindow, struck.banBudget = last, lastBudget
  struck.strikes, struck.strikesEnd = 0, 0
  put(struck, 'b', struck.number)
  put(struck, 'B', struck.banEnd)
  put(struck, 'w', last)
  put(struck, 'W', rule.budgets[lastBudget] or '')
  put(struck, 'x', 0)
  put(struck, 'X', 0)
  return admitted + max(rule.after - strikes - 1, 0), 1
end

-- Writes what has changed. Returns an error of the store.
local function writeAccount(account, key, rule, admitted)
  local changes, windows = account.changes, account.windows
  for i = 1, #windows do
    local window = windows[i]
    -- Slices become another kind when something is counted. If refusals did it, a client that polls two gateways that are in
    -- the middle of a reload would move its count along with the present, and never be admitted again.
    if window.isConverted and admitted > 0 or window.isChanged and not window.isConverted then
      putWindow(changes, window)
    end
  end
  local ticketsEnd = 0
  if account.most then
    begun[key] = (begun[key] or 0) + admitted
    local own = account.held + admitted
    if own > 0 then
      ticketsEnd = now + TICKET_MS
      account.others[#account.others + 1] = string.format('%s %d %d', rule.holder, own, ticketsEnd)
    end
    put(account, 'f', table.concat(account.others, ' '))
    account.isLasting = true
  end
  if #changes == 0 then return nil end
  local written = redis.pcall('HSET', key, unpack(changes))
  if type(written) == 'table' and written.err then return written end
  if account.isLasting then
    local banEnd = account.number > 0 and account.banEnd + rule.forget or 0
    local expires = max(account.strikesEnd, banEnd, ticketsEnd, account.leasesEnd, now + redis.call('PTTL', key))
    for i = 1, #windows do expires = max(expires, windows[i].ends) end
    redis.call('PEXPIREAT', key, expires)
  end
  return nil
end

-- Appends the standing of an account's windows to a reply. Returns whether one of them has a top-up.
local function replyWindows(reply, account)
  local hasTopUps = false
  for _, window in ipairs(account.windows) do
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
  return hasTopUps
end

local function replyOf(rule, admitted, bannedFrom, imposes, crowded, wait, mayReturn, lent, lentFor)
  local accounts, reply = rule.accounts, { admitted }
  local isPlain = crowded + wait + mayReturn + lent == 0
  for i = 1, #accounts do
    local account = accounts[i]
    local hasTopUps = replyWindows(reply, account)
    if hasTopUps or account.strikes > 0 or account.number > 0 then isPlain = false end
  end
  for i = 1, #accounts do
    if accounts[i].most then reply[#reply + 1] = accounts[i].inFlight + admitted end
  end
  if isPlain then return textOf(reply) end
  for _, value in ipairs({ bannedFrom, imposes, crowded, wait, mayReturn, lent, lentFor }) do reply[#reply + 1] = value end
  for i = 1, #accounts do
    local one = accounts[i]
    local window = one.banWindow + 10 * one.banBudget
    for _, value in ipairs({ one.strikes, one.strikesEnd, one.number, one.banEnd, window }) do
      reply[#reply + 1] = value
    end
  end
  for i = 1, #accounts do
    for _, window in ipairs(accounts[i].windows) do
      if window.topUp then
        for _, value in ipairs({ window.index + 10 * (i - 1), window.topUp, window.topUpEnd }) do
          reply[#reply + 1] = value
        end
      end
    end
  end
  return textOf(reply)
end

-- How many of `room` requests fit into an account if `returned` units of it are returned, and whether none ever fits.
local function roomOf(account, room, returned)
  local cost, neverFits = account.cost, false
  for _, window in ipairs(account.windows) do
    if window.limit < max(cost, 1) then neverFits = true end
    local left = window.limit - window.used + returned
    if cost > 0 then
      room = min(room, floor(left / cost))
    elseif left <= 0 then
      room = 0
    end
  end
  return room, neverFits
end

-- Whether what gateways may still return could change the refusal of `refused` requests: one of them would fit then, or they would
-- lead to a ban of an account whose units others may still be using.
local function mayHelp(rule, refused, isStrike)
  local room = 1
  for _, account in ipairs(rule.accounts) do
    local units = unreturned(account.leases, now)
    room = roomOf(account, room, units)
  end
  if room > 0 then return true end
  local struck = rule.accounts[rule.struck]
  if not isStrike or struck.strikes + refused < rule.after then return false end
  local _, time = unreturned(struck.leases, now)
  return time > 0
end

-- Decides about one consumer. Returns its part of the reply, or an error of the store.
-- `keys`: of its accounts; `histories`: its own and that of its customer, as far as they are kept; `held`: how many requests
-- this process has in flight in each account; `amounts`: what each request takes of each unit, whose histories follow the others;
-- `terms`: what its gateway says about leases, if anything.
local function decide(rule, keys, histories, n, cost, held, amounts, terms)
  local accounts = rule.accounts
  local room, crowdRoom, back = n, n, 0
  local costExceedsLimit, isBanned, hasLeases = false, false, false
  local tookBack, lentIn = 0, 0
  for i = 1, #accounts do
    local account = accounts[i]
    -- A lease may be returned under an earlier rule: without requests, nothing else of the account changes.
    account.onlyReturns = n == 0
    local accountBack, reply = readAccount(account, keys[i], rule, i == rule.struck and rule.after or 0, held and held[i])
    if accountBack == nil then return reply end
    back = max(back, accountBack)
    for _, window in ipairs(n == 0 and account.windows or NONE) do window.isChanged = false end
    account.isLasting = false
    -- What each request charges here. One that takes nothing in advance is admitted as long as something is left.
    account.cost = amounts[account.unit] or cost
    isBanned = isBanned or account.number > 0 and now < account.banEnd
    if terms and terms.returned > 0 and #account.leases > 0 then
      local units, hourOfLease = leasing().takeBack(account, terms.returned, terms.unused, terms.places[i])
      if units then tookBack, lentIn = units, hourOfLease end
    end
    hasLeases = hasLeases or #account.leases > 0
    local neverFits
    room, neverFits = roomOf(account, room, 0)
    costExceedsLimit = costExceedsLimit or neverFits
    if account.most then crowdRoom = min(crowdRoom, account.most - account.inFlight) end
  end
  for i = 1, #accounts do readStrikes(accounts[i], rule, i == rule.struck and rule.after or 0, back) end

  local admitted, bannedFrom, imposes, crowded = 0, n, 0, 0
  local wait, mayReturn, lent, lentFor = 0, 0, 0, 0
  if isBanned then
    bannedFrom = 0
  else
    room = max(room, 0)
    admitted = min(room, max(crowdRoom, 0))
    if admitted > 0 then
      for i = 1, #accounts do
        if accounts[i].cost > 0 then countAll(accounts[i], admitted * accounts[i].cost) end
      end
    end
    for i = 1, hasLeases and #accounts or 0 do
      if leasing().mayReturn(accounts[i]) then mayReturn = 1 end
    end
    local isStrike = rule.after > 0 and not costExceedsLimit
    if admitted < room then
      crowded = 1
    elseif admitted < n then
      for i = 1, mayReturn == 1 and not (terms and terms.isFinal) and #accounts or 0 do
        local _, time = unreturned(accounts[i].leases, now)
        wait = max(wait, time)
      end
      if wait > 0 and mayHelp(rule, n - admitted, isStrike) then
        leasing().callBack(accounts, keys)
      elseif isStrike then
        wait = 0
        bannedFrom, imposes = strike(rule, n, admitted)
        if imposes == 1 and mayReturn == 1 then
          leasing().callBack(accounts, keys)
          mayReturn = 0
        end
      else
        wait = 0
      end
    elseif terms and terms.borrows > 0 and n > 0 then
      lent, lentFor = leasing().lend(accounts, terms.id, terms.borrows, cost)
    end
  end

  if n > 0 or terms and terms.returned > 0 then
    -- The first write of the script: if the store refuses writes, nothing has been done for this consumer.
    for i = 1, #accounts do
      local err = writeAccount(accounts[i], keys[i], rule, admitted)
      if err then return err end
    end
  end
  local recorded = rule.recordsAll and n or admitted
  if recorded > 0 or tookBack > 0 then
    for i = 1, #histories do
      local isOfUnit = i > rule.histories
      local amount = isOfUnit and recorded * amounts[floor((i - 1) / rule.histories)] or recorded * cost + lent
      local err = amount > 0 and history().admitted(histories[i], hour, amount)
      if not err and tookBack > 0 and not isOfUnit then
        err = history().broughtLate(histories[i], lentIn, -tookBack, hour)
      end
      if err then return err end
    end
  end
  return replyOf(rule, admitted, bannedFrom, imposes, crowded, wait, mayReturn, lent, lentFor)
end

local rules = {}
local arguments = readGatewayClock(time[1])
for i = 2, arguments do
  rules[i] = readRule(ARGV[i])
  if rules[i] == nil then return string.format('%d', now) end
end
local replies = { string.format('%d', now) }
local runs = numbersIn(ARGV[1])
local at, i = 0, 1
while i <= #runs do
  local rule, n, cost, consumers = rules[runs[i]], runs[i + 1], runs[i + 2], runs[i + 3]
  i = i + 4
  local terms = nil
  if consumers == 0 then
    consumers = 1
    terms = { borrows = runs[i], id = runs[i + 1], isFinal = runs[i + 2] == 1, returned = runs[i + 3], unused = runs[i + 4] }
    terms.places = {}
    i = i + 5
    for j = 1, #rule.accounts do
      terms.places[j] = {}
      for k = 1, terms.unused > 0 and #rule.accounts[j].windows or 0 do
        terms.places[j][k] = runs[i]
        i = i + 1
      end
    end
  end
  local held = nil
  if rule.isBounded then
    held = {}
    for j = 1, #rule.accounts do
      if runs[i + j - 1] >= 0 then held[j] = runs[i + j - 1] end
    end
    i = i + #rule.accounts
  end
  local amounts = {}
  for j = 1, rule.units do amounts[j] = runs[i + j - 1] end
  i = i + rule.units
  local kept = rule.histories * (1 + rule.units)
  for _ = 1, consumers do
    local keys, histories = { KEYS[at + 1] }, {}
    for j = 2, #rule.accounts do keys[j] = KEYS[at + j] end
    at = at + #rule.accounts
    for j = 1, kept do histories[j] = KEYS[at + j] end
    at = at + kept
    local reply = decide(rule, keys, histories, n, cost, held, amounts, terms)
    if type(reply) == 'table' and reply.err then return reply end
    replies[#replies + 1] = reply
  end
end
if unrecorded then
  for j = 1, #KEYS do
    if KEYS[j] == unrecorded then
      replies[#replies + 1] = j
      break
    end
  end
end
return table.concat(replies, ' ')
