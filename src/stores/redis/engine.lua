-- Made by `npm run engine:lua` of src/engine and src/stores/redis/shell, which say what it does: change those.
-- The line of TypeScript for each line is in engine.lua.map.
local rare_files = {}
local charging_chargeOf, charging_neededFor, charging_isPresent, charging_presentWindows, charging_limitOf, charging_roomFor, charging_count
do
--- How much one request charges a budget.
function charging_chargeOf(budget, cost, amounts)
  local ____budget_0 = budget
  local unit = ____budget_0.unit
  if unit == nil then
    return cost
  end
  return amounts and amounts[unit] or 0
end
--- How much must be left of a limit for a request that charges `charge`: the store admits a request that takes nothing in advance as
-- long as something is left.
function charging_neededFor(charge)
  return charge > 1 and charge or 1
end
--- Whether an open fixed window is what `presentCount` would return: a quick test, because most windows are.
function charging_isPresent(count, limit, nowMs)
  return limit.slices == nil and limit.instants == nil and count.slices == nil and nowMs < count.endsAtMs and count.endsAtMs <= nowMs + limit.lengthMs
end
--- The counts of an account that have not ended, in the windows that a budget limits.
function charging_presentWindows(before, limits, nowMs)
  local windows = {}
  local ____all = limits for ____i = 1, #____all do local limit = ____all[____i]
    local count = before[limit.window]
    if count ~= nil then
      if not charging_isPresent(count, limit, nowMs) then
        count = rare_files.counting.presentCount(count, limit, nowMs).count
      end
      if count ~= nil then
        windows[limit.window] = count
      end
    end
  end
  return windows
end
--- The limit that a budget has for a window.
function charging_limitOf(budget, window)
  local ____all = budget.limits for ____i = 1, #____all do local limit = ____all[____i]
    if limit.window == window then
      return limit
    end
  end
  return nil
end
--- How many of `n` requests fit into all windows of the present accounts.
-- 
-- @param returned how much of each account counts as unused; left out: nothing
function charging_roomFor(decision, budgets, n, returned)
  local room = n
  do
    local i = 0
    while i < #budgets do
      local budget = budgets[i + 1]
      local ____decision_accounts_index_3 = decision.accounts[i + 1]
      local windows = ____decision_accounts_index_3.windows
      local charge = charging_chargeOf(budget, decision.cost, decision.amounts)
      local unused = returned == nil and 0 or returned[i + 1]
      local ____all = budget.limits for ____i = 1, #____all do local limit = ____all[____i]
        local open = windows[limit.window]
        local left = limit.limit - (open == nil and 0 or open.used) + unused
        if left < room * charge then
          room = math.floor(left / charge)
        elseif charge == 0 and left <= 0 then
          room = 0
        end
      end
      i = i + 1
    end
  end
  return room < 0 and 0 or room
end
--- Counts `spent` in every window of a budget.
-- 
-- @param windows present ones, which this changes
function charging_count(windows, limits, nowMs, spent)
  local ____all = limits for ____i = 1, #____all do local limit = ____all[____i]
    local before = windows[limit.window]
    local isFixed = limit.slices == nil and limit.instants == nil
    if before ~= nil and limit.slices == nil then
      windows[limit.window] = {used = before.used + spent, endsAtMs = before.endsAtMs}
    elseif isFixed then
      windows[limit.window] = {used = spent, endsAtMs = nowMs + limit.lengthMs}
    else
      windows[limit.window] = rare_files.counting.countIn(before, limit, nowMs, spent)
    end
  end
end
end
local history_form_HISTORY_BYTES, history_form_LAST_HOUR_BYTES, history_form_HOURS_KEPT, history_form_DAYS_KEPT, history_form_RECENT, history_form_HOURS, history_form_DAYS, history_form_COST_BYTES, history_form_HOUR_REFUSALS, history_form_DAY_REFUSALS, history_form_hourOf, history_form_dayOf, history_form_costOfHourAt, history_form_costOfDayAt
do
--- The usage of one consumer: by hour for 48 hours and by day for 92 days, UTC. Both stores keep it in the same 1,000 bytes, so a million
-- consumers take about a gigabyte. history-moves.ts says how it moves from one hour to the next.
-- 
-- All numbers are unsigned and big-endian:
-- 
--      0   4 bytes  the last counted hour, in hours since 1970
--      4  16 bytes  the refusals and the ban answers of that hour, then those of its day; 4 bytes each
--     20 240 bytes  the admitted cost of 48 hours, 5 bytes each: hour `h` at index `h % 48`
--    260 460 bytes  the admitted cost of 92 days: day `d` at index `d % 92`
--    720  96 bytes  the refusals and the ban answers of 48 hours, 1 byte each
--    816 184 bytes  those of 92 days
-- 
-- Admitted cost is exact up to 1,099,511,627,775 in an hour and in a day. Refusals and ban answers are approximate: gateways
-- report them once a second, and a history keeps those of a past hour or day in one byte, within 7 %.
history_form_HISTORY_BYTES = 1000
--- A history begins with the last counted hour.
history_form_LAST_HOUR_BYTES = 4
history_form_HOURS_KEPT = 48
history_form_DAYS_KEPT = 92
--- Where the refusals and the ban answers of the last hour begin, then those of its day.
history_form_RECENT = 4
history_form_HOURS = 20
history_form_DAYS = 260
history_form_COST_BYTES = 5
history_form_HOUR_REFUSALS = 720
history_form_DAY_REFUSALS = 816
--- Hours since 1970.
function history_form_hourOf(ms)
  return math.floor(ms / 3600000)
end
--- Days since 1970.
function history_form_dayOf(hour)
  return math.floor(hour / 24)
end
--- Where the admitted cost of an hour is.
function history_form_costOfHourAt(hour)
  return history_form_HOURS + history_form_COST_BYTES * (hour % history_form_HOURS_KEPT)
end
--- Where the admitted cost of a day is.
function history_form_costOfDayAt(day)
  return history_form_DAYS + history_form_COST_BYTES * (day % history_form_DAYS_KEPT)
end
end
local history_costs_historyState, history_costs_readGatewayClock, history_costs_addCost
do
history_costs_historyState = {isMoving = true}
---
-- @returns how many arguments there are besides the clock of the gateway
function history_costs_readGatewayClock(storeSeconds)
  local seconds = string.match(ARGV[#ARGV] or "", "^@(%d+)$")
  if seconds == nil then
    return #ARGV
  end
  history_costs_historyState.isMoving = math.abs(storeSeconds - tonumber(seconds)) <= 3600
  return #ARGV - 1
end
--- Adds admitted cost to an hour and its day, before it is known whether the hour is the last one of the history: nearly always it is, and
-- this takes one call of Redis instead of two.
-- 
-- @returns undefined if it is; else what `recordAgain` needs
function history_costs_addCost(key, hour, cost)
  local ofHour = 8 * history_form_costOfHourAt(hour)
  local ofDay = 8 * history_form_costOfDayAt(history_form_dayOf(hour))
  local added = redis.pcall(
    "BITFIELD",
    key,
    "OVERFLOW",
    "SAT",
    "INCRBY",
    "u40",
    ofHour,
    cost,
    "INCRBY",
    "u40",
    ofDay,
    cost,
    "GET",
    "u32",
    "0"
  )
  if added.err == nil and added[3] == hour then
    return nil
  end
  return added
end
end
local script_time_seconds, script_time_nowMs
do
local time = redis.call("TIME")
--- The present by the store's clock, as it was when the script began. Redis gives both parts as text, which Lua calculates with.
script_time_seconds = time[1]
--- Unix milliseconds.
script_time_nowMs = script_time_seconds * 1000 + math.floor(time[2] / 1000)
end
local whole_number_MOST, whole_number_wholeIn
do
--- The largest number that Lua and the gateway count exactly.
whole_number_MOST = 9007199254740992
--- Undefined if the text is not a whole number that a gateway can have written.
function whole_number_wholeIn(text)
  local number = tonumber(text)
  if number == nil or number < 0 or number > whole_number_MOST or number ~= math.floor(number) then
    return nil
  end
  return number
end
end
local stored_account_windowsIn, stored_account_FOREIGN, stored_account_includeNow, stored_account_loadAccount, stored_account_saveAccount
do
local fault
function fault(err)
  return string.find(err, "WRONGTYPE", 1, true) == nil and ({err = err}) or stored_account_FOREIGN
end
--- Reads the counts, of which `values` has two for each limit.
-- 
-- @returns undefined if one is foreign
function stored_account_windowsIn(values, limits)
  local windows = {}
  local at = 0
  local ____all = limits for ____i = 1, #____all do local ____value = ____all[____i]
    local window = ____value.window
    local usedText = values[at + 1]
    local endsText = values[at + 1 + 1]
    at = at + 2
    if usedText ~= false or endsText ~= false then
      local used = usedText == false and 0 or tonumber(usedText)
      local endsAtMs = endsText == false and 0 or whole_number_wholeIn(endsText)
      if endsAtMs == nil then
        return nil
      end
      if used == nil then
        local count = rare_files.rare_fields.slicesIn(usedText, endsAtMs, window)
        if count == nil then
          return nil
        end
        windows[window] = count
      else
        if used < 0 or used > whole_number_MOST or used ~= math.floor(used) then
          return nil
        end
        if endsAtMs > 0 then
          windows[window] = {used = used, endsAtMs = endsAtMs}
        elseif used > 0 then
          return nil
        end
      end
    end
  end
  return windows
end
--- Strikes, bans, top-ups, leases and requests in flight, which few accounts have (rare-fields.ts).
local RARE_FIELDS = {
  "x",
  "X",
  "b",
  "B",
  "w",
  "t",
  "l",
  "f"
}
--- The account has values that no gateway has written.
stored_account_FOREIGN = "foreign"
--- Whether the instants of all calendar windows include the present.
function stored_account_includeNow(limits, nowMs)
  local ____all = limits for ____i = 1, #____all do local ____value = ____all[____i]
    local instants = ____value.instants
    if instants ~= nil and (nowMs < instants[1] or nowMs >= instants[#instants]) then
      return false
    end
  end
  return true
end
function stored_account_loadAccount(key, ____bindingPattern0)
  local inFlight
  local limits
  local fields
  fields = ____bindingPattern0.fields
  limits = ____bindingPattern0.limits
  inFlight = ____bindingPattern0.inFlight
  local values = #limits == 0 and ({}) or redis.pcall(
    "HMGET",
    key,
    unpack(fields)
  )
  if values.err ~= nil then
    return fault(values.err)
  end
  local windows = stored_account_windowsIn(values, limits)
  if windows == nil then
    return stored_account_FOREIGN
  end
  local account = {windows = windows}
  local known = 0
  local ____all = values for ____i = 1, #____all do local value = ____all[____i]
    if value ~= false then
      known = known + 1
    end
  end
  if redis.pcall("HLEN", key) ~= known then
    local rare = redis.pcall(
      "HMGET",
      key,
      unpack(RARE_FIELDS)
    )
    if rare.err ~= nil then
      return fault(rare.err)
    end
    local hasRare = false
    do
      local i = 0
      while i < 7 do
        if rare[i + 1] ~= false then
          hasRare = true
        end
        i = i + 1
      end
    end
    if hasRare and not rare_files.rare_fields.readRare(account, key, rare, 0) then
      return stored_account_FOREIGN
    end
    if inFlight ~= nil then
      account.tickets = rare_files.rare_fields.ticketsIn(rare[8])
    end
  end
  return account
end
--- Writes the parts of an account that have changed.
-- 
-- @returns an error of the store
function stored_account_saveAccount(key, ____bindingPattern0, before, after, bans, nowMs)
  local limits
  local fields
  fields = ____bindingPattern0.fields
  limits = ____bindingPattern0.limits
  local changes = {}
  local size = 0
  local lastMs = 0
  local isLasting = false
  local earlier = before.windows
  local later = after.windows
  local at = 0
  local ____all = limits for ____i = 1, #____all do local ____value = ____all[____i]
    local window = ____value.window
    local was = earlier[window]
    local is = later[window]
    if is ~= nil and is.endsAtMs > lastMs then
      lastMs = is.endsAtMs
    end
    if was ~= is then
      local slices = is and is.slices
      local endsAtMs = is == nil and 0 or is.endsAtMs
      changes[size + 1] = fields[at + 1]
      changes[size + 1 + 1] = slices == nil and (is == nil and 0 or is.used) or rare_files.rare_fields.slicesText(slices)
      size = size + 2
      if was == nil or slices ~= nil or was.slices ~= nil or was.endsAtMs ~= endsAtMs then
        changes[size + 1] = fields[at + 1 + 1]
        changes[size + 1 + 1] = slices == nil and endsAtMs or slices.startsAtMs
        size = size + 2
        if was == nil or endsAtMs > was.endsAtMs then
          isLasting = true
        end
      end
    end
    at = at + 2
  end
  if before.strikes ~= after.strikes or before.ban ~= after.ban or before.leases ~= after.leases or before.tickets ~= after.tickets then
    lastMs = math.max(
      lastMs,
      rare_files.rare_fields.writeRare(changes, before, after)
    )
    isLasting = true
  end
  if #changes == 0 then
    return nil
  end
  local written = redis.pcall(
    "HSET",
    key,
    unpack(changes)
  )
  if type(written) ~= "number" then
    return written
  end
  if isLasting then
    local ____after_2 = after
    local strikes = ____after_2.strikes
    local ban = ____after_2.ban
    if strikes ~= nil then
      lastMs = math.max(lastMs, strikes.endsAtMs)
    end
    if ban ~= nil then
      lastMs = math.max(lastMs, ban.untilMs + (bans == nil and 0 or bans.forgetMs))
    end
    if lastMs > nowMs + redis.call("PTTL", key) then
      redis.call("PEXPIREAT", key, lastMs)
    end
  end
  return nil
end
end
setmetatable(rare_files, {__index = function(_, name)
if name == "windows" then
local exports = {WINDOWS = false, numberOfWindow = false}
--- The quota windows, shortest first. Headers list them in this order. It has no import, because Redis runs it as Lua too.
exports.WINDOWS = {
  "second",
  "minute",
  "hour",
  "day",
  "week",
  "month"
}
--- The number of a window in what Redis keeps and answers: its place in WINDOWS, from 1.
function exports.numberOfWindow(window)
  local number = 1
  while exports.WINDOWS[number] ~= window do
    number = number + 1
  end
  return number
end
rare_files.windows = exports
return exports
elseif name == "counting" then
local exports = {slicedCount = false, WINDOW_MS = false, endIfOpened = false, presentCount = false, countIn = false, placeOf = false, givenBack = false, fitsAtMs = false, nextEndMs = false, withoutWindow = false, copyOfWindows = false, leavingAfter = false}
local countInSlices, oneSlice, presentSlices, goneBy, withoutFirst, copyFrom, leavesAtMs, boundary
function countInSlices(count, limit, nowMs, spent)
  if (count and count.slices) == nil then
    return oneSlice(limit, nowMs, spent)
  end
  local ____count_slices_3 = count.slices
  local per = ____count_slices_3.per
  local startsAtMs = ____count_slices_3.startsAtMs
  local first = ____count_slices_3.first
  local counts = ____count_slices_3.counts
  local at = math.ceil((nowMs - startsAtMs + 1) * per / limit.lengthMs) - 1 - first
  local counted = copyFrom(counts, 0)
  while #counted <= at do
    counted[#counted + 1] = 0
  end
  counted[at + 1] = counted[at + 1] + spent
  return exports.slicedCount({per = per, startsAtMs = startsAtMs, first = first, counts = counted}, limit.lengthMs)
end
--- Slices as a store keeps them, with the total and the end of the count.
function exports.slicedCount(slices, lengthMs)
  local used = 0
  local ____all = slices.counts for ____i = 1, #____all do local count = ____all[____i]
    used = used + count
  end
  return {
    used = used,
    endsAtMs = leavesAtMs(slices, #slices.counts - 1, lengthMs),
    slices = slices
  }
end
function oneSlice(limit, nowMs, used)
  return exports.slicedCount({per = limit.slices, startsAtMs = nowMs, first = 0, counts = {used}}, limit.lengthMs)
end
function presentSlices(count, slices, lengthMs, nowMs)
  local ____slices_6 = slices
  local per = ____slices_6.per
  local first = ____slices_6.first
  local counts = ____slices_6.counts
  local size = #counts
  local backMs = math.max(
    slices.startsAtMs + boundary(first + size - 1, lengthMs, per) - nowMs,
    0
  )
  local moved = backMs == 0 and slices or ({per = per, startsAtMs = slices.startsAtMs - backMs, first = first, counts = counts})
  local gone = goneBy(moved, lengthMs, nowMs)
  if gone == size then
    return {backMs = backMs}
  end
  if gone == 0 and backMs == 0 then
    return {count = count, backMs = backMs}
  end
  return {
    count = withoutFirst(moved, gone, lengthMs),
    backMs = backMs
  }
end
function goneBy(slices, lengthMs, atMs)
  local ____slices_8 = slices
  local counts = ____slices_8.counts
  local gone = 0
  while gone < #counts and (counts[gone + 1] == 0 or leavesAtMs(slices, gone, lengthMs) <= atMs) do
    gone = gone + 1
  end
  return gone
end
function withoutFirst(slices, gone, lengthMs)
  local ____slices_9 = slices
  local per = ____slices_9.per
  local counts = ____slices_9.counts
  local number = slices.first + gone
  local first = number % per
  local startsAtMs = slices.startsAtMs + (number - first) / per * lengthMs
  return exports.slicedCount(
    {
      per = per,
      startsAtMs = startsAtMs,
      first = first,
      counts = copyFrom(counts, gone)
    },
    lengthMs
  )
end
function copyFrom(counts, first)
  local copy = {}
  do
    local i = first
    while i < #counts do
      copy[#copy + 1] = counts[i + 1]
      i = i + 1
    end
  end
  return copy
end
function leavesAtMs(slices, i, lengthMs)
  return slices.startsAtMs + lengthMs + boundary(slices.first + i + 1, lengthMs, slices.per)
end
function boundary(index, lengthMs, per)
  return math.floor(index * lengthMs / per)
end
--- How long a window lasts, milliseconds; of a month the longest.
exports.WINDOW_MS = {
  second = 1000,
  minute = 60000,
  hour = 3600000,
  day = 86400000,
  week = 604800000,
  month = 2678400000
}
--- When a window ends that opens at `nowMs`.
function exports.endIfOpened(limit, nowMs)
  if limit.instants ~= nil then
    local ____all = limit.instants for ____i = 1, #____all do local instant = ____all[____i]
      if nowMs < instant then
        return instant
      end
    end
  end
  return nowMs + limit.lengthMs + (limit.slices == nil and 0 or boundary(1, limit.lengthMs, limit.slices))
end
--- The part of a count that still counts at `nowMs` under a limit, whose kind may have changed since. If the clock was set back, the
-- count moves back by `backMs`, so that it lasts no longer than a window that opens now.
-- 
-- A fixed count becomes one slice of the present, because the time of each request in it is unknown. The slices of a sliding count
-- become one count that ends when the oldest of them leaves, which is no later than any Retry-After has promised.
function exports.presentCount(count, limit, nowMs)
  if count == nil or nowMs >= count.endsAtMs then
    return {backMs = 0}
  end
  local ____limit_0 = limit
  local lengthMs = ____limit_0.lengthMs
  if limit.slices ~= nil then
    if count.slices == nil then
      return {
        count = oneSlice(limit, nowMs, count.used),
        backMs = math.max(count.endsAtMs - nowMs - lengthMs, 0)
      }
    end
    local present = presentSlices(count, count.slices, lengthMs, nowMs)
    if present.count == nil or count.slices.per == limit.slices then
      return present
    end
    return {
      count = oneSlice(limit, nowMs, present.count.used),
      backMs = present.backMs
    }
  end
  local latestMs = exports.endIfOpened(limit, nowMs)
  if count.slices == nil then
    local backMs = math.max(count.endsAtMs - latestMs, 0)
    return {count = backMs == 0 and count or ({used = count.used, endsAtMs = latestMs}), backMs = backMs}
  end
  local present = presentSlices(count, count.slices, lengthMs, nowMs)
  local sliced = present.count
  if sliced == nil then
    return present
  end
  local oldestMs = leavesAtMs(sliced.slices, 0, lengthMs)
  return {
    count = {
      used = sliced.used,
      endsAtMs = math.min(oldestMs, latestMs)
    },
    backMs = present.backMs
  }
end
--- The count after `spent` more at `nowMs`.
-- 
-- @param count a present one; undefined if the window is not open
function exports.countIn(count, limit, nowMs, spent)
  if limit.slices ~= nil then
    return countInSlices(count, limit, nowMs, spent)
  end
  if count == nil then
    return {
      used = spent,
      endsAtMs = exports.endIfOpened(limit, nowMs)
    }
  end
  return {used = count.used + spent, endsAtMs = count.endsAtMs}
end
--- Where a count has the requests that the store counted last: when they cease to count, Unix milliseconds. It stays the same while the count is
-- open, unless an operator sets the clock back or changes the kind of the window.
function exports.placeOf(count)
  return count.endsAtMs
end
--- The count after the store has taken an amount out of it at its place (`placeOf`); the same object if that place is gone, so that the store gives
-- nothing back twice or in another time. Undefined if the window has then counted nothing.
-- 
-- @param count a present one
function exports.givenBack(count, limit, place, amount)
  if count.slices == nil then
    if count.endsAtMs ~= place then
      return count
    end
    return {
      used = math.max(count.used - amount, 0),
      endsAtMs = place
    }
  end
  local ____count_slices_4 = count.slices
  local per = ____count_slices_4.per
  local startsAtMs = ____count_slices_4.startsAtMs
  local first = ____count_slices_4.first
  local counts = ____count_slices_4.counts
  local at = -1
  do
    local i = 0
    while i < #counts do
      if leavesAtMs(count.slices, i, limit.lengthMs) == place then
        at = i
      end
      i = i + 1
    end
  end
  if at < 0 then
    return count
  end
  local left = copyFrom(counts, 0)
  left[at + 1] = math.max(left[at + 1] - amount, 0)
  while #left > 0 and left[#left] == 0 do
    table.remove(left)
  end
  if #left == 0 then
    return nil
  end
  local gone = 0
  while left[gone + 1] == 0 do
    gone = gone + 1
  end
  return withoutFirst({per = per, startsAtMs = startsAtMs, first = first, counts = left}, gone, limit.lengthMs)
end
--- The first instant at which a request of `cost` fits, if the store counts nothing else: for a sliding window when enough slices
-- have left, for others the end of the window. If it never fits, when the window is empty.
function exports.fitsAtMs(count, limit, cost)
  local ____count_5 = count
  local slices = ____count_5.slices
  if slices == nil then
    return count.endsAtMs
  end
  local used = count.used
  do
    local i = 0
    while i < #slices.counts do
      local left = slices.counts[i + 1]
      if left > 0 then
        local atMs = leavesAtMs(slices, i, limit.lengthMs)
        used = used - left
        local hasTopUpEnded = limit.topUp ~= nil and atMs >= limit.topUp.untilMs
        if used + cost <= limit.limit - (hasTopUpEnded and limit.topUp.amount or 0) then
          return atMs
        end
      end
      i = i + 1
    end
  end
  return count.endsAtMs
end
--- When the next part of a count ceases to count: the oldest slice of a sliding window, or the whole count of another window.
function exports.nextEndMs(count, lengthMs)
  return count.slices == nil and count.endsAtMs or leavesAtMs(count.slices, 0, lengthMs)
end
--- The windows without one of them.
function exports.withoutWindow(windows, gone)
  local left = {}
  for name in pairs(windows) do
    local window = name
    if window ~= gone then
      left[window] = windows[window]
    end
  end
  return left
end
function exports.copyOfWindows(windows)
  local copy = {}
  for name in pairs(windows) do
    copy[name] = windows[name]
  end
  return copy
end
--- The part of a sliding count that still counts after `atMs`, which may be in the future; undefined if none does.
function exports.leavingAfter(count, lengthMs, atMs)
  local slices = count.slices
  local gone = goneBy(slices, lengthMs, atMs)
  local ____temp_7
  if gone == #slices.counts then
    ____temp_7 = nil
  else
    ____temp_7 = withoutFirst(slices, gone, lengthMs)
  end
  return ____temp_7
end
rare_files.counting = exports
return exports
elseif name == "refusing" then
local exports = {withEnd = false, banLengthMs = false, currentBan = false, keepStrikes = false, isStrike = false, strike = false}
local withoutBudget, hasBudget, lastRefusing
--- The ban with another number and end.
function exports.withEnd(ban, number, untilMs)
  local ____ban_0 = ban
  local window = ____ban_0.window
  local budget = ____ban_0.budget
  return budget == nil and ({number = number, untilMs = untilMs, window = window}) or ({number = number, untilMs = untilMs, window = window, budget = budget})
end
function withoutBudget(ban)
  return {number = ban.number, untilMs = ban.untilMs, window = ban.window}
end
function hasBudget(budgets, name)
  local ____all = budgets for ____i = 1, #____all do local budget = ____all[____i]
    if budget.name == name then
      return true
    end
  end
  return false
end
function lastRefusing(decision, budgets)
  local budget = budgets[1].name
  local window = "second"
  local fitsAtMs = 0
  do
    local i = 0
    while i < #budgets do
      local ____budgets_index_5 = budgets[i + 1]
      local name = ____budgets_index_5.name
      local limits = ____budgets_index_5.limits
      local ____decision_accounts_index_6 = decision.accounts[i + 1]
      local windows = ____decision_accounts_index_6.windows
      local needed = charging_neededFor(charging_chargeOf(budgets[i + 1], decision.cost, decision.amounts))
      local ____all = limits for ____i = 1, #____all do local limit = ____all[____i]
        local open = windows[limit.window]
        if limit.limit - (open == nil and 0 or open.used) < needed then
          local atMs = open == nil and 0 or rare_files.counting.fitsAtMs(open, limit, needed)
          if atMs >= fitsAtMs then
            budget = name
            window = limit.window
            fitsAtMs = atMs
          end
        end
      end
      i = i + 1
    end
  end
  return {budget = budget, window = window, fitsAtMs = fitsAtMs}
end
--- The length of the `number`-th ban in milliseconds. The loop multiplies step by step, so that Lua gets the same bits.
function exports.banLengthMs(rule, number)
  if rule.factor == 1 then
    return math.min(rule.firstMs, rule.longestMs)
  end
  local length = rule.firstMs
  do
    local i = 1
    while i < number and length < rule.longestMs do
      length = length * rule.factor
      i = i + 1
    end
  end
  return math.min(
    math.floor(length),
    rule.longestMs
  )
end
--- The ban that is in force at `nowMs` or that the store remembers for its number.
-- 
-- @param rule absent: the account has no bans under the present plan
-- @param isRead whether the caller only reads the state: then the ban keeps its end, which each reading would move to a later moment
function exports.currentBan(stored, rule, nowMs, budgets, isRead)
  local ban = (stored.budget == nil or hasBudget(budgets, stored.budget)) and stored or withoutBudget(stored)
  if rule == nil then
    return nowMs < ban.untilMs and ban or nil
  end
  if nowMs >= ban.untilMs + rule.forgetMs then
    return nil
  end
  if isRead or nowMs >= ban.untilMs then
    return ban
  end
  local latestMs = nowMs + exports.banLengthMs(rule, ban.number)
  return ban.untilMs > latestMs and exports.withEnd(ban, ban.number, latestMs) or ban
end
--- Keeps the strikes that have not ended. Strikes end with the window that refused. If the clock was set back by at
-- least `backMs`, according to the windows, the end of the strikes moves back by the same amount. Otherwise a client that waits for the
-- end of the window would be banned for strikes of the window before.
function exports.keepStrikes(before, accounts, rule, nowMs, backMs)
  local ____rule_1 = rule
  local bans = ____rule_1.bans
  local bansIn = ____rule_1.bansIn
  local ____opt_2 = before[bansIn + 1]
  local strikes = ____opt_2 and ____opt_2.strikes
  if strikes == nil or bans == nil then
    return
  end
  local endsAtMs = math.min(strikes.endsAtMs - backMs, nowMs + bans.withinMs)
  if nowMs >= endsAtMs then
    return
  end
  accounts[bansIn + 1].strikes = endsAtMs == strikes.endsAtMs and strikes or ({count = strikes.count, endsAtMs = endsAtMs})
end
--- Whether the refusal of a request is a strike: one that waiting could have avoided.
function exports.isStrike(budgets, rule, cost, amounts)
  if rule.bans == nil then
    return false
  end
  local ____all = budgets for ____i = 1, #____all do local budget = ____all[____i]
    local needed = charging_neededFor(charging_chargeOf(budget, cost, amounts))
    local ____all = budget.limits for ____i = 1, #____all do local ____value = ____all[____i]
      local limit = ____value.limit
      if limit < needed then
        return false
      end
    end
  end
  return true
end
--- Counts the refused requests as strikes, or imposes the ban that they lead to.
function exports.strike(decision, budgets, rule)
  local ____decision_4 = decision
  local nowMs = ____decision_4.nowMs
  local n = ____decision_4.n
  local admitted = ____decision_4.admitted
  local bans = rule.bans
  local struck = decision.accounts[rule.bansIn + 1]
  local last = lastRefusing(decision, budgets)
  local before = struck.strikes == nil and 0 or struck.strikes.count
  local total = before + n - admitted
  if total < bans.after then
    local latestMs = struck.strikes == nil and nowMs + bans.withinMs or struck.strikes.endsAtMs
    struck.strikes = {
      count = total,
      endsAtMs = math.min(latestMs, last.fitsAtMs)
    }
    return
  end
  local number = (struck.ban == nil and 0 or struck.ban.number) + 1
  local untilMs = nowMs + exports.banLengthMs(bans, number)
  local window = last.window
  local budget = last.budget
  struck.ban = budget == "" and ({number = number, untilMs = untilMs, window = window}) or ({number = number, untilMs = untilMs, window = window, budget = budget})
  struck.strikes = nil
  decision.bannedFrom = admitted + math.max(bans.after - before - 1, 0)
  decision.imposesBan = true
end
rare_files.refusing = exports
return exports
elseif name == "leasing" then
local exports = {recalled = false, waitFor = false, MAX_LEASE_MS = false, SHORT_LEASE_MS = false, RETURN_WITHIN_MS = false, KNOWN_FOR_MS = false, RECALL_FOR_MS = false, takeBack = false, decideWithLeases = false, waitToMove = false}
local knownLeases, unreturnedUnits, giveBack, movesCounts, mayHelp, lend, spreadEnd, isRecalled, HOUR_MS, MIN_LEASE_MS, SHARE, SHARE_OF_LONG, MAX_LONG_LEASES, MIN_UNITS, MIN_REQUESTS, ENDS, MAX_AHEAD_MS, RECALL_EVERY_MS, MAX_LEASES
function knownLeases(account, nowMs)
  local known = {}
  if account.leases == nil then
    return known
  end
  local latestMs = nowMs + (isRecalled(account.leases, nowMs) and exports.RECALL_FOR_MS or exports.MAX_LEASE_MS)
  local ____all = account.leases for ____i = 1, #____all do local lease = ____all[____i]
    local id = lease.id
    local units = lease.units
    local endsAtMs = lease.endsAtMs
    if nowMs < endsAtMs + exports.KNOWN_FOR_MS and endsAtMs <= nowMs + exports.MAX_LEASE_MS + MAX_AHEAD_MS then
      known[#known + 1] = endsAtMs > latestMs and ({id = id, units = units, endsAtMs = latestMs}) or lease
    end
  end
  return known
end
--- The leases of an account after a recall; undefined if nothing is lent, or what is lent was recalled a moment ago. Gateways that run
-- return their units at once, so a request waits for others no longer than for a short lease.
function exports.recalled(account, nowMs)
  local lent = {}
  local endsAtMs = nowMs + exports.RECALL_FOR_MS
  local ____all = knownLeases(account, nowMs) for ____i = 1, #____all do local lease = ____all[____i]
    local id = lease.id
    local units = lease.units
    if units ~= 0 then
      lent[#lent + 1] = lease.endsAtMs > endsAtMs and ({id = id, units = units, endsAtMs = endsAtMs}) or lease
    elseif lease.endsAtMs > endsAtMs - RECALL_EVERY_MS then
      return nil
    end
  end
  if #lent == 0 then
    return nil
  end
  lent[#lent + 1] = {id = 0, units = 0, endsAtMs = endsAtMs}
  return lent
end
function unreturnedUnits(account, nowMs)
  local sum = 0
  local ____all = knownLeases(account, nowMs) for ____i = 1, #____all do local ____value = ____all[____i]
    local units = ____value.units
    local endsAtMs = ____value.endsAtMs
    if units > 0 and nowMs < endsAtMs + exports.RETURN_WITHIN_MS then
      sum = sum + units
    end
  end
  return sum
end
--- For how long a request may wait for units of this account, milliseconds; 0 if the store has lent none.
function exports.waitFor(account, nowMs)
  local longest = 0
  local ____all = knownLeases(account, nowMs) for ____i = 1, #____all do local ____value = ____all[____i]
    local units = ____value.units
    local endsAtMs = ____value.endsAtMs
    if units ~= 0 then
      longest = math.max(longest, endsAtMs + exports.RETURN_WITHIN_MS - nowMs)
    end
  end
  return longest
end
function giveBack(account, budget, places, units)
  local windows = rare_files.counting.copyOfWindows(account.windows)
  do
    local j = 0
    while j < #budget.limits do
      local limit = budget.limits[j + 1]
      local count = windows[limit.window]
      if count ~= nil then
        local left = rare_files.counting.givenBack(count, limit, places and places[j + 1] or 0, units)
        if left == nil then
          windows = rare_files.counting.withoutWindow(windows, limit.window)
        else
          windows[limit.window] = left
        end
      end
      j = j + 1
    end
  end
  account.windows = windows
end
function movesCounts(earlier, present, ____bindingPattern0)
  local limits
  limits = ____bindingPattern0.limits
  if earlier == nil then
    return false
  end
  local ____all = limits for ____i = 1, #____all do local ____value = ____all[____i]
    local window = ____value.window
    local from = earlier.windows[window]
    local to = present.windows[window]
    if from ~= nil and to ~= nil then
      local ____temp_14
      if from.slices == nil then
        ____temp_14 = from.endsAtMs ~= to.endsAtMs
      else
        local ____from_slices_per_13 = from.slices.per
        local ____opt_11 = to.slices
        ____temp_14 = ____from_slices_per_13 ~= (____opt_11 and ____opt_11.per)
      end
      if ____temp_14 then
        return true
      end
    end
  end
  return false
end
function mayHelp(decision, budgets, rule, isStrike)
  local ____decision_15 = decision
  local accounts = ____decision_15.accounts
  local n = ____decision_15.n
  local admitted = ____decision_15.admitted
  local nowMs = ____decision_15.nowMs
  local returned = {}
  local ____all = accounts for ____i = 1, #____all do local account = ____all[____i]
    returned[#returned + 1] = unreturnedUnits(account, nowMs)
  end
  if charging_roomFor(decision, budgets, 1, returned) > 0 then
    return true
  end
  local struck = accounts[rule.bansIn + 1]
  local strikes = struck.strikes == nil and 0 or struck.strikes.count
  if not isStrike or strikes + n - admitted < rule.bans.after then
    return false
  end
  return exports.waitFor(struck, nowMs) > 0
end
function lend(decision, budgets, borrows)
  local ____decision_16 = decision
  local accounts = ____decision_16.accounts
  local cost = ____decision_16.cost
  local nowMs = ____decision_16.nowMs
  local room = borrows.units * SHARE_OF_LONG
  local forMs = spreadEnd(HOUR_MS - nowMs % HOUR_MS, borrows)
  local most = MAX_LONG_LEASES
  do
    local i = 0
    while i < #accounts do
      local account = accounts[i + 1]
      local known = knownLeases(account, nowMs)
      if account.strikes ~= nil or #known >= MAX_LEASES or isRecalled(known, nowMs) then
        return
      end
      most = math.min(most, MAX_LONG_LEASES - #known)
      local ____all = budgets[i + 1].limits for ____i = 1, #____all do local limit = ____all[____i]
        local count = account.windows[limit.window]
        if count == nil then
          return
        end
        room = math.min(room, limit.limit - count.used)
        local leftMs = count.endsAtMs - (count.slices == nil and 0 or limit.lengthMs) - nowMs
        forMs = math.min(
          forMs,
          limit.instants == nil and leftMs or spreadEnd(leftMs, borrows)
        )
        if limit.topUp ~= nil then
          forMs = math.min(forMs, limit.topUp.untilMs - nowMs)
        end
      end
      i = i + 1
    end
  end
  local isLong = most > 0 and borrows.units * SHARE_OF_LONG <= room
  forMs = math.min(forMs, borrows.forMs, isLong and exports.MAX_LEASE_MS or exports.SHORT_LEASE_MS)
  local units = math.min(
    math.ceil(borrows.units * forMs / borrows.forMs),
    math.floor(room / SHARE)
  )
  if units < math.max(MIN_UNITS, MIN_REQUESTS * cost) or forMs < MIN_LEASE_MS then
    return
  end
  do
    local i = 0
    while i < #accounts do
      local account = accounts[i + 1]
      local ____budgets_index_17 = budgets[i + 1]
      local limits = ____budgets_index_17.limits
      charging_count(account.windows, limits, nowMs, units)
      local leases = knownLeases(account, nowMs)
      leases[#leases + 1] = {id = borrows.id, units = #limits == 0 and -units or units, endsAtMs = nowMs + forMs}
      account.leases = leases
      i = i + 1
    end
  end
  decision.lent = {units = units, forMs = forMs}
end
function spreadEnd(leftMs, ____bindingPattern0)
  local forMs
  local id
  id = ____bindingPattern0.id
  forMs = ____bindingPattern0.forMs
  return leftMs < forMs and leftMs - math.floor(leftMs * (id % ENDS) / (2 * ENDS)) or leftMs
end
function isRecalled(leases, nowMs)
  local ____all = leases for ____i = 1, #____all do local ____value = ____all[____i]
    local units = ____value.units
    local endsAtMs = ____value.endsAtMs
    if units == 0 and nowMs < endsAtMs then
      return true
    end
  end
  return false
end
HOUR_MS = 3600000
--- The longest lease.
exports.MAX_LEASE_MS = 2000
--- The longest lease of an account that is close to its limit. It is short because a killed gateway does not return its units.
exports.SHORT_LEASE_MS = 250
MIN_LEASE_MS = 10
SHARE = 16
SHARE_OF_LONG = 64
MAX_LONG_LEASES = 8
MIN_UNITS = 4
MIN_REQUESTS = 2
ENDS = 32
--- How long after the end of a lease its return may be on the way, so that a request waits for it and the store does not refuse it.
exports.RETURN_WITHIN_MS = 100
--- How long after its end the store knows a lease, and takes back what the gateway did not use: the gateway may have been busy.
exports.KNOWN_FOR_MS = 2000
MAX_AHEAD_MS = 5000
--- A recall is in force for this long: the store lends nothing of the account meanwhile, and what it has lent ends with it.
exports.RECALL_FOR_MS = 250
RECALL_EVERY_MS = 20
MAX_LEASES = 64
--- True while a gateway may still return units of this account, even if no request can wait that long.
local function mayReturn(account, nowMs)
  local ____all = knownLeases(account, nowMs) for ____i = 1, #____all do local ____value = ____all[____i]
    local units = ____value.units
    if units ~= 0 then
      return true
    end
  end
  return false
end
--- Recalls what the store has lent of these accounts, and lends nothing of them for a while: a request waits for it, or a ban began.
local function recall(decision)
  local ____decision_0 = decision
  local accounts = ____decision_0.accounts
  local nowMs = ____decision_0.nowMs
  local recalls = {}
  do
    local i = 0
    while i < #accounts do
      local account = accounts[i + 1]
      local leases = exports.recalled(account, nowMs)
      if leases ~= nil then
        account.leases = leases
        recalls[#recalls + 1] = i
      end
      i = i + 1
    end
  end
  if #recalls > 0 then
    decision.recalls = recalls
  end
end
local function longestWait(accounts, nowMs)
  local longest = 0
  local ____all = accounts for ____i = 1, #____all do local account = ____all[____i]
    longest = math.max(
      longest,
      exports.waitFor(account, nowMs)
    )
  end
  return longest
end
--- Takes back what a gateway did not use of a lease: once, because the lease is then gone.
function exports.takeBack(decision, budgets, returned)
  local ____decision_1 = decision
  local accounts = ____decision_1.accounts
  local nowMs = ____decision_1.nowMs
  do
    local i = 0
    while i < #accounts do
      local account = accounts[i + 1]
      local others = {}
      local found
      local ____all = knownLeases(account, nowMs) for ____i = 1, #____all do local lease = ____all[____i]
        if found == nil and lease.id == returned.id then
          found = lease
        else
          others[#others + 1] = lease
        end
      end
      if found ~= nil then
        local ____temp_2
        if #others == 0 then
          ____temp_2 = nil
        else
          ____temp_2 = others
        end
        account.leases = ____temp_2
        local units = math.min(
          returned.unused,
          math.abs(found.units)
        )
        decision.tookBack = {
          units = units,
          hour = math.floor((found.endsAtMs - 1) / HOUR_MS)
        }
        if units > 0 then
          giveBack(account, budgets[i + 1], returned.places[i + 1], units)
        end
      end
      i = i + 1
    end
  end
end
--- Decides about the requests that were not admitted, and lends units, if the store has lent some or the gateway asks for some.
function exports.decideWithLeases(decision, budgets, rule, room, terms)
  local ____decision_5 = decision
  local accounts = ____decision_5.accounts
  local admitted = ____decision_5.admitted
  local n = ____decision_5.n
  local nowMs = ____decision_5.nowMs
  local cost = ____decision_5.cost
  local amounts = ____decision_5.amounts
  local ____all = accounts for ____i = 1, #____all do local account = ____all[____i]
    if mayReturn(account, nowMs) then
      decision.mayReturn = true
    end
  end
  if admitted < room then
    decision.isCrowded = true
  elseif admitted < n then
    local isStrike = rare_files.refusing.isStrike(budgets, rule, cost, amounts)
    if not (terms and terms.isFinal) and longestWait(accounts, nowMs) > 0 and mayHelp(decision, budgets, rule, isStrike) then
      recall(decision)
      decision.waitMs = longestWait(accounts, nowMs)
    elseif isStrike then
      rare_files.refusing.strike(decision, budgets, rule)
      if decision.imposesBan then
        recall(decision)
        decision.mayReturn = nil
      end
    end
  elseif (terms and terms.borrows) ~= nil and n > 0 then
    lend(decision, budgets, terms.borrows)
  end
end
--- Recalls what is lent of windows that this decision would count in another form, as after a change of plans, and lets all requests
-- wait: what gateways return afterwards would not find its place.
-- 
-- @returns false if there is no such window
function exports.waitToMove(decision, before, budgets)
  local ____decision_10 = decision
  local accounts = ____decision_10.accounts
  local nowMs = ____decision_10.nowMs
  local tookBack = ____decision_10.tookBack
  local waitMs = 0
  do
    local i = 0
    while i < #accounts and tookBack == nil do
      if movesCounts(before[i + 1], accounts[i + 1], budgets[i + 1]) then
        waitMs = math.max(
          waitMs,
          exports.waitFor(accounts[i + 1], nowMs)
        )
      end
      i = i + 1
    end
  end
  if waitMs == 0 then
    return false
  end
  recall(decision)
  decision.waitMs = longestWait(accounts, nowMs)
  decision.mayReturn = true
  decision.awaitsMove = true
  return true
end
rare_files.leasing = exports
return exports
elseif name == "special" then
local exports = {toppedUp = false, topUpsOf = false, roomInFlight = false, reported = false, addInFlight = false, afterReturn = false, keptAccount = false}
local withTopUp, ticketsBeside, setTickets, keepTopUps, banAfter, TICKET_MS
function withTopUp(limit, topUps, nowMs)
  local topUp = topUps[limit.window]
  if topUp == nil or nowMs >= topUp.untilMs then
    return limit
  end
  local ____limit_2 = limit
  local window = ____limit_2.window
  local lengthMs = ____limit_2.lengthMs
  local slices = ____limit_2.slices
  local instants = ____limit_2.instants
  return {
    window = window,
    lengthMs = lengthMs,
    limit = limit.limit + topUp.amount,
    slices = slices,
    instants = instants,
    topUp = topUp
  }
end
function ticketsBeside(tickets, holder, nowMs)
  local others = {}
  if tickets == nil then
    return others
  end
  local ____all = tickets for ____i = 1, #____all do local ticket = ____all[____i]
    if ticket.holder ~= holder and ticket.endsAtMs > nowMs then
      local endsAtMs = math.min(ticket.endsAtMs, nowMs + TICKET_MS)
      others[#others + 1] = {holder = ticket.holder, count = ticket.count, endsAtMs = endsAtMs}
    end
  end
  return others
end
function setTickets(decision, i, tickets)
  local account = decision.accounts[i + 1]
  local ____temp_14
  if #tickets == 0 then
    ____temp_14 = nil
  else
    ____temp_14 = tickets
  end
  account.tickets = ____temp_14
end
function keepTopUps(kept, before, nowMs)
  if before.topUps == nil then
    return
  end
  local topUps
  for name in pairs(before.topUps) do
    local topUp = before.topUps[name]
    if nowMs < topUp.untilMs then
      if topUps == nil then
        topUps = {}
      end
      topUps[name] = topUp
    end
  end
  if topUps == nil then
    return
  end
  kept.topUps = topUps
  local notes = {}
  local ____all = before.topUpNotes or ({}) for ____i = 1, #____all do local note = ____all[____i]
    if nowMs < note.untilMs then
      notes[#notes + 1] = note
    end
  end
  if #notes > 0 then
    kept.topUpNotes = notes
  end
end
function banAfter(before, ban)
  if (before and before.budget) == nil or ban == nil or ban.untilMs > before.untilMs or ban.budget ~= nil then
    return ban
  end
  if ban.untilMs == before.untilMs and ban.number == before.number then
    return before
  end
  return {number = ban.number, untilMs = ban.untilMs, window = ban.window, budget = before.budget}
end
TICKET_MS = 10000
--- Returns the budgets with their limits raised by the top-ups in force.
function exports.toppedUp(budgets, before, nowMs)
  local all = {}
  do
    local i = 0
    while i < #budgets do
      local budget = budgets[i + 1]
      local ____opt_0 = before[i + 1]
      local topUps = ____opt_0 and ____opt_0.topUps
      if topUps == nil then
        all[#all + 1] = budget
      else
        local limits = {}
        local ____all = budget.limits for ____i = 1, #____all do local limit = ____all[____i]
          limits[#limits + 1] = withTopUp(limit, topUps, nowMs)
        end
        all[#all + 1] = {name = budget.name, unit = budget.unit, inFlight = budget.inFlight, limits = limits}
      end
      i = i + 1
    end
  end
  return all
end
--- Collects the top-ups that `toppedUp` has added to these limits; undefined if it added none.
function exports.topUpsOf(limits)
  local found
  local ____all = limits for ____i = 1, #____all do local ____value = ____all[____i]
    local window = ____value.window
    local topUp = ____value.topUp
    if topUp ~= nil then
      if found == nil then
        found = {}
      end
      found[window] = topUp
    end
  end
  return found
end
--- Computes how many further requests every account lets be in flight. It writes into the decision how many are, and leaves the accounts the
-- tickets of the other processes.
-- 
-- @param ownInFlight how many requests the asking process has in flight in each account; -1 or left out: its ticket says it
function exports.roomInFlight(decision, before, rule, ownInFlight)
  local ____decision_3 = decision
  local nowMs = ____decision_3.nowMs
  local n = ____decision_3.n
  local room = n
  local counts = {}
  do
    local i = 0
    while i < #rule.budgets do
      local most = rule.budgets[i + 1].inFlight
      if most == nil then
        counts[#counts + 1] = -1
      else
        local own = ownInFlight and ownInFlight[i + 1] or -1
        local inFlight = own < 0 and 0 or own
        local ____ticketsBeside_10 = ticketsBeside
        local ____opt_6 = before[i + 1]
        local ____temp_9 = ____opt_6 and ____opt_6.tickets
        local ____temp_8
        if own < 0 then
          ____temp_8 = nil
        else
          ____temp_8 = rule.holder
        end
        local tickets = ____ticketsBeside_10(____temp_9, ____temp_8, nowMs)
        local ____all = tickets for ____i = 1, #____all do local ____value = ____all[____i]
          local count = ____value.count
          inFlight = inFlight + count
        end
        counts[#counts + 1] = inFlight
        setTickets(decision, i, tickets)
        room = math.min(room, most - inFlight)
      end
      i = i + 1
    end
  end
  decision.inFlight = counts
  return math.max(room, 0)
end
--- Replaces the ticket of a process by its new report.
-- 
-- @param count how many requests of the account it has in flight
function exports.reported(before, holder, count, nowMs)
  local tickets = ticketsBeside(before, holder, nowMs)
  if count > 0 then
    tickets[#tickets + 1] = {holder = holder, count = count, endsAtMs = nowMs + TICKET_MS}
  end
  return tickets
end
--- Adds the admitted requests to those in flight, and gives each account the new ticket of the asking process.
function exports.addInFlight(decision, rule, ownInFlight)
  local ____decision_11 = decision
  local admitted = ____decision_11.admitted
  local nowMs = ____decision_11.nowMs
  local counts = decision.inFlight
  do
    local i = 0
    while i < #counts do
      if counts[i + 1] >= 0 then
        counts[i + 1] = counts[i + 1] + admitted
        local own = math.max(ownInFlight and ownInFlight[i + 1] or 0, 0) + admitted
        if rule.holder ~= nil and own > 0 then
          local tickets = {}
          local ____all = decision.accounts[i + 1].tickets or ({}) for ____i = 1, #____all do local ticket = ____all[____i]
            tickets[#tickets + 1] = ticket
          end
          tickets[#tickets + 1] = {holder = rule.holder, count = own, endsAtMs = nowMs + TICKET_MS}
          setTickets(decision, i, tickets)
        end
      end
      i = i + 1
    end
  end
end
--- Returns the account that a store keeps after a gateway has only returned a lease. The gateway may have borrowed it under an earlier rule.
-- So only the leases and the windows that counted it change: the present rule may count the strikes and other windows differently.
function exports.afterReturn(before, after, budget, nowMs)
  local windows = rare_files.counting.copyOfWindows(before.windows)
  local ____all = budget.limits for ____i = 1, #____all do local limit = ____all[____i]
    local window = limit.window
    local slices = limit.slices
    local earlier = before.windows[window]
    local left = after.windows[window]
    local present = rare_files.counting.presentCount(earlier, limit, nowMs).count
    local ____opt_15 = earlier and earlier.slices
    if (____opt_15 and ____opt_15.per) == slices and (present and present.used) ~= (left and left.used) then
      if left == nil then
        windows = rare_files.counting.withoutWindow(windows, window)
      else
        windows[window] = left
      end
    end
  end
  local kept = {windows = windows}
  if before.strikes ~= nil then
    kept.strikes = before.strikes
  end
  if before.ban ~= nil then
    kept.ban = before.ban
  end
  if before.topUps ~= nil then
    kept.topUps = before.topUps
  end
  if before.topUpNotes ~= nil then
    kept.topUpNotes = before.topUpNotes
  end
  if before.tickets ~= nil then
    kept.tickets = before.tickets
  end
  if after.leases ~= nil then
    kept.leases = after.leases
  end
  return kept
end
--- Returns the account that a store keeps after a decision: what the decision made of it, and what its rule does not count.
function exports.keptAccount(before, decision, i, budget)
  local ____decision_23 = decision
  local nowMs = ____decision_23.nowMs
  local admitted = ____decision_23.admitted
  local after = decision.accounts[i + 1]
  local windows = rare_files.counting.copyOfWindows(after.windows)
  for name in pairs(before.windows) do
    local window = name
    local count = before.windows[window]
    local limit = charging_limitOf(budget, window)
    local isConverted = count.slices ~= nil and count.slices.per ~= (limit and limit.slices) and after.windows[window] ~= nil
    if limit == nil or isConverted and admitted == 0 then
      windows[window] = count
    end
  end
  local kept = {windows = windows}
  if after.strikes ~= nil then
    kept.strikes = after.strikes
  end
  local ban = banAfter(before.ban, after.ban)
  if ban ~= nil then
    kept.ban = ban
  end
  if after.leases ~= nil then
    kept.leases = after.leases
  end
  if after.tickets ~= nil then
    kept.tickets = after.tickets
  end
  keepTopUps(kept, before, nowMs)
  return kept
end
rare_files.special = exports
return exports
elseif name == "history_hours" then
local exports = {hasHour = false, lateCost = false}
--- Whether a history has an hour. If it does not and the hour is an earlier one, the clock was set back, and a new history begins.
function exports.hasHour(last, hour)
  return last >= hour and last - hour < history_form_HOURS_KEPT
end
--- Where cost counts that comes late, or that is taken back. What is older than the hours that are kept counts for its day alone: it
-- must not move the history back and so empty it.
-- 
-- @param cost negative to take back, if the history still has that hour
-- @param present the hour of the store
-- @param last the last hour of the history; undefined if there is none, or if the cost is not negative
-- @returns undefined: nowhere
function exports.lateCost(hour, cost, present, last)
  if hour > present - history_form_HOURS_KEPT then
    local at = math.min(hour, present)
    if cost < 0 and (last == nil or not exports.hasHour(last, at)) then
      return nil
    end
    return {reaches = at, hour = at}
  end
  if cost < 0 and last == nil then
    return nil
  end
  local day = history_form_dayOf(hour)
  return day > history_form_dayOf(present) + 2 - history_form_DAYS_KEPT and ({reaches = present, day = day}) or ({reaches = present})
end
rare_files.history_hours = exports
return exports
elseif name == "history_moves" then
local exports = {packed = false, historyEndsAtMs = false, moveTo = false}
local keepRefusals, clear
--- A count in one byte: exact to 15, then three binary digits and an exponent.
function exports.packed(count)
  local exponent = 0
  local digits = count
  while digits >= 16 do
    digits = math.floor(digits / 2)
    exponent = exponent + 1
  end
  return exponent == 0 and digits or 8 * exponent + digits
end
function keepRefusals(bytes, at, recent)
  do
    local i = 0
    while i < 2 do
      local count = 0
      do
        local j = 0
        while j < 4 do
          count = count * 256 + bytes[recent + 4 * i + j + 1]
          j = j + 1
        end
      end
      bytes[at + i + 1] = exports.packed(count)
      i = i + 1
    end
  end
end
function clear(bytes, at, size)
  do
    local i = at
    while i < at + size do
      bytes[i + 1] = 0
      i = i + 1
    end
  end
end
--- A store keeps a history until this time, Unix milliseconds.
-- 
-- @param hour the last counted one
function exports.historyEndsAtMs(hour)
  return (hour + 1 + history_form_DAYS_KEPT * 24) * 3600000
end
--- Closes the last hour, and its day if `hour` is of another one, and clears those that begin.
-- 
-- @param last the last hour of the history, earlier than `hour`
function exports.moveTo(bytes, last, hour)
  local lastDay = history_form_dayOf(last)
  local day = history_form_dayOf(hour)
  keepRefusals(bytes, history_form_HOUR_REFUSALS + 2 * (last % history_form_HOURS_KEPT), history_form_RECENT)
  do
    local one = math.max(last + 1, hour - history_form_HOURS_KEPT + 1)
    while one <= hour do
      clear(
        bytes,
        history_form_costOfHourAt(one),
        history_form_COST_BYTES
      )
      clear(bytes, history_form_HOUR_REFUSALS + 2 * (one % history_form_HOURS_KEPT), 2)
      one = one + 1
    end
  end
  if day > lastDay then
    keepRefusals(bytes, history_form_DAY_REFUSALS + 2 * (lastDay % history_form_DAYS_KEPT), history_form_RECENT + 8)
    do
      local one = math.max(lastDay + 1, day - history_form_DAYS_KEPT + 1)
      while one <= day do
        clear(
          bytes,
          history_form_costOfDayAt(one),
          history_form_COST_BYTES
        )
        clear(bytes, history_form_DAY_REFUSALS + 2 * (one % history_form_DAYS_KEPT), 2)
        one = one + 1
      end
    end
  end
  clear(bytes, history_form_RECENT, day > lastDay and 16 or 8)
  do
    local i = 0
    while i < 4 do
      bytes[i + 1] = math.floor(hour / 256 ^ (3 - i)) % 256
      i = i + 1
    end
  end
end
rare_files.history_moves = exports
return exports
elseif name == "stored_history" then
local exports = {faultOf = false, reachHour = false, recordAgain = false, recordRefused = false}
local movedTo, historyFrom, lastHourIn, IGNORED
--- The error, if there is one that the caller must report it: not that the key holds something else, nor that the ACL of this user is from before there were
-- histories, which the gateway warns of at startup.
function exports.faultOf(key, err)
  if err == nil then
    return nil
  end
  if string.find(err, "WRONGTYPE", 1, true) ~= nil then
    history_costs_historyState.unrecorded = key
  end
  local ____all = IGNORED for ____i = 1, #____all do local ignored = ____all[____i]
    if string.find(err, ignored, 1, true) ~= nil then
      return nil
    end
  end
  return {err = err}
end
--- Makes `hour` the last hour of a history, unless it has a later one that is not 48 hours later.
-- 
-- @returns false if the key holds something else, or if histories do not move; the error if Redis refuses to write
function exports.reachHour(key, hour)
  local read = redis.pcall("GETRANGE", key, 0, history_form_LAST_HOUR_BYTES - 1)
  if type(read) ~= "string" then
    exports.faultOf(key, read.err)
    return false
  end
  local head = read == string.rep("\0", history_form_LAST_HOUR_BYTES) and "" or read
  local isWhole = #head == history_form_LAST_HOUR_BYTES
  if isWhole and rare_files.history_hours.hasHour(
    lastHourIn(head),
    hour
  ) then
    return true
  end
  if not history_costs_historyState.isMoving then
    return false
  end
  local text = head == "" and historyFrom(hour) or movedTo(key, hour)
  if text == nil then
    history_costs_historyState.unrecorded = key
    return false
  end
  local ____redis_pcall_result_4 = redis.pcall("SET", key, text)
  local err = ____redis_pcall_result_4.err
  if err ~= nil then
    return exports.faultOf(key, err) or false
  end
  redis.call(
    "PEXPIREAT",
    key,
    rare_files.history_moves.historyEndsAtMs(hour)
  )
  return true
end
function movedTo(key, hour)
  local text = redis.call("GETRANGE", key, 0, history_form_HISTORY_BYTES)
  if #text ~= history_form_HISTORY_BYTES then
    return nil
  end
  local last = lastHourIn(text)
  if last > hour then
    return historyFrom(hour)
  end
  local bytes = {string.byte(text, 1, history_form_HISTORY_BYTES)}
  rare_files.history_moves.moveTo(bytes, last, hour)
  return string.char(unpack(bytes))
end
function historyFrom(hour)
  return struct.pack(">I4", hour) .. string.rep("\0", history_form_HISTORY_BYTES - history_form_LAST_HOUR_BYTES)
end
function lastHourIn(text)
  return struct.unpack(">I4", text, 1)
end
IGNORED = {"WRONGTYPE", "NOPERM", "can't run this command"}
--- Adds admitted cost where `addCost` has got `added`.
-- 
-- @returns an error of the store
function exports.recordAgain(key, hour, cost, added)
  if added.err ~= nil then
    return exports.faultOf(key, added.err)
  end
  history_costs_addCost(key, hour, -cost)
  local reached = exports.reachHour(key, hour)
  if type(reached) ~= "boolean" then
    return reached
  end
  if not reached then
    return nil
  end
  local ____exports_faultOf_3 = exports.faultOf
  local ____key_2 = key
  local ____opt_0 = history_costs_addCost(key, hour, cost)
  return ____exports_faultOf_3(____key_2, ____opt_0 and ____opt_0.err)
end
--- Adds refusals and ban answers.
function exports.recordRefused(key, hour, refused, banned)
  if exports.reachHour(key, hour) ~= true then
    return
  end
  local args = {"BITFIELD", key, "OVERFLOW", "SAT"}
  local counts = {refused, banned, refused, banned}
  do
    local i = 0
    while i < #counts do
      args[#args + 1] = "INCRBY"
      args[#args + 1] = "u32"
      args[#args + 1] = 8 * (history_form_RECENT + 4 * i)
      args[#args + 1] = counts[i + 1]
      i = i + 1
    end
  end
  redis.pcall(unpack(args))
end
rare_files.stored_history = exports
return exports
elseif name == "late_costs" then
local exports = {recordLate = false}
local lastHourAt
function lastHourAt(key)
  local head = redis.pcall("GETRANGE", key, 0, history_form_LAST_HOUR_BYTES - 1)
  if type(head) ~= "string" or #head < history_form_LAST_HOUR_BYTES then
    return nil
  end
  return struct.unpack(">I4", head, 1)
end
--- Adds cost that comes late, or with a negative one gives back what was added before (`lateCost`).
-- 
-- @param present the hour of the store
-- @returns an error of the store
function exports.recordLate(key, hour, cost, present)
  local last
  if cost < 0 then
    last = lastHourAt(key)
  end
  local late = rare_files.history_hours.lateCost(hour, cost, present, last)
  if late == nil then
    return nil
  end
  if late.hour ~= nil then
    local added = history_costs_addCost(key, late.hour, cost)
    if added == nil then
      return nil
    end
    return rare_files.stored_history.recordAgain(key, late.hour, cost, added)
  end
  local reached = rare_files.stored_history.reachHour(key, late.reaches)
  if type(reached) ~= "boolean" then
    return reached
  end
  if not reached or late.day == nil then
    return nil
  end
  local ofDay = 8 * history_form_costOfDayAt(late.day)
  return rare_files.stored_history.faultOf(
    key,
    redis.pcall(
      "BITFIELD",
      key,
      "OVERFLOW",
      "SAT",
      "INCRBY",
      "u40",
      ofDay,
      cost
    ).err
  )
end
rare_files.late_costs = exports
return exports
elseif name == "rare_fields" then
local exports = {slicesIn = false, slicesText = false, readRare = false, ticketsIn = false, writeRare = false}
local readTopUps, readLeases, put, MAX_LEASES
function readTopUps(account, text)
  if #text > 50 * #rare_files.windows.WINDOWS then
    return false
  end
  local topUps = {}
  local numbers = {}
  local words = string.gmatch(text, "%S+")
  do
    local word = words()
    while word ~= nil do
      local number = whole_number_wholeIn(word)
      if number == nil or number < 1 then
        return false
      end
      numbers[#numbers + 1] = number
      word = words()
    end
  end
  if #numbers % 3 > 0 then
    return false
  end
  do
    local i = 0
    while i < #numbers do
      local window = rare_files.windows.WINDOWS[numbers[i + 1]]
      if window == nil or topUps[window] ~= nil then
        return false
      end
      topUps[window] = {amount = numbers[i + 1 + 1], untilMs = numbers[i + 2 + 1]}
      i = i + 3
    end
  end
  if #numbers > 0 then
    account.topUps = topUps
  end
  return true
end
function readLeases(account, text)
  if #text > 64 * MAX_LEASES then
    return
  end
  local numbers = {}
  local words = string.gmatch(text, "%S+")
  do
    local word = words()
    while word ~= nil do
      local number = tonumber(word)
      if number == nil or not (number >= -whole_number_MOST and number <= whole_number_MOST) or number ~= math.floor(number) then
        return
      end
      numbers[#numbers + 1] = number
      word = words()
    end
  end
  local leases = {}
  do
    local i = 2
    while i < #numbers do
      leases[#leases + 1] = {id = numbers[i - 2 + 1], units = numbers[i], endsAtMs = numbers[i + 1]}
      i = i + 3
    end
  end
  if #leases > 0 then
    account.leases = leases
  end
end
function put(changes, field, value)
  changes[#changes + 1] = field
  changes[#changes + 1] = value
end
--- The lengths of the windows that may slide.
local SLIDING_MS = {
  second = 1000,
  minute = 60000,
  hour = 3600000,
  day = 86400000,
  week = 604800000
}
--- Slices per length, as in plans.yaml. A count has one more: the oldest leaves when the next one has ended.
local MAX_SLICES = 30
MAX_LEASES = 64
--- Undefined if the value is foreign.
function exports.slicesIn(text, startsAtMs, window)
  local lengthMs = SLIDING_MS[window]
  if lengthMs == nil or #text < 3 or #text > 2 + 8 * (MAX_SLICES + 1) then
    return nil
  end
  local per = string.byte(text, 1) - 128
  local second = string.byte(text, 2)
  local width = math.floor(second / 32) + 1
  local first = second % 32
  local size = (#text - 2) / width
  if per < 1 or per > MAX_SLICES or first >= per or size > per + 1 or size ~= math.floor(size) then
    return nil
  end
  local counts = {}
  do
    local i = 0
    while i < size do
      local count = struct.unpack(
        ">I" .. tostring(width),
        text,
        3 + i * width
      )
      if count > whole_number_MOST then
        return nil
      end
      counts[#counts + 1] = count
      i = i + 1
    end
  end
  return rare_files.counting.slicedCount({per = per, first = first, startsAtMs = startsAtMs, counts = counts}, lengthMs)
end
function exports.slicesText(____bindingPattern0)
  local counts
  local first
  local per
  per = ____bindingPattern0.per
  first = ____bindingPattern0.first
  counts = ____bindingPattern0.counts
  local most = 0
  local ____all = counts for ____i = 1, #____all do local count = ____all[____i]
    most = math.max(most, count)
  end
  local width = 1
  while most >= 256 ^ width do
    width = width + 1
  end
  local head = string.char(128 + per, first + 32 * (width - 1))
  return head .. struct.pack(
    ">" .. string.rep(
      "I" .. tostring(width),
      #counts
    ),
    unpack(counts)
  )
end
--- Reads strikes, ban, top-ups and leases, whose values begin at `at`.
-- 
-- @returns false if one is foreign
function exports.readRare(account, key, values, at)
  local numbers = {}
  do
    local i = 0
    while i < 5 do
      local text = values[at + i + 1]
      local number = text == false and 0 or whole_number_wholeIn(text)
      if number == nil then
        return false
      end
      numbers[#numbers + 1] = number
      i = i + 1
    end
  end
  local number = numbers[3]
  local windowNumber = numbers[5]
  if windowNumber > #rare_files.windows.WINDOWS or number > 0 and windowNumber == 0 then
    return false
  end
  if numbers[1] > 0 then
    account.strikes = {count = numbers[1], endsAtMs = numbers[2]}
  end
  if number > 0 then
    local untilMs = numbers[4]
    local window = rare_files.windows.WINDOWS[windowNumber]
    local budget = redis.call("HGET", key, "W")
    account.ban = (budget == false or budget == "") and ({number = number, untilMs = untilMs, window = window}) or ({number = number, untilMs = untilMs, window = window, budget = budget})
  end
  local topUps = values[at + 5 + 1]
  if topUps ~= false and not readTopUps(account, topUps) then
    return false
  end
  local leases = values[at + 6 + 1]
  if leases ~= false then
    readLeases(account, leases)
  end
  return true
end
--- Reads the tickets, without those that are foreign; undefined if there are none.
function exports.ticketsIn(text)
  local tickets = {}
  if text == false then
    return nil
  end
  local words = string.gmatch(text, "%S+")
  do
    local holder = words()
    while holder ~= nil do
      local countText = words()
      local endsText = words()
      local count = whole_number_wholeIn(countText or "")
      local endsAtMs = whole_number_wholeIn(endsText or "")
      if count ~= nil and endsAtMs ~= nil then
        tickets[#tickets + 1] = {holder = holder, count = count, endsAtMs = endsAtMs}
      end
      holder = words()
    end
  end
  local ____temp_0
  if #tickets == 0 then
    ____temp_0 = nil
  else
    ____temp_0 = tickets
  end
  return ____temp_0
end
--- Appends the changed fields to `changes`.
-- 
-- @returns when the last of the changed leases and tickets ends for the store, Unix milliseconds
function exports.writeRare(changes, before, after)
  local lastMs = 0
  local ____after_1 = after
  local strikes = ____after_1.strikes
  local ban = ____after_1.ban
  local leases = ____after_1.leases
  local tickets = ____after_1.tickets
  if before.strikes ~= strikes then
    put(changes, "x", strikes == nil and 0 or strikes.count)
    put(changes, "X", strikes == nil and 0 or strikes.endsAtMs)
  end
  if before.ban ~= ban then
    put(changes, "b", ban == nil and 0 or ban.number)
    put(changes, "B", ban == nil and 0 or ban.untilMs)
    if ban ~= nil then
      put(
        changes,
        "w",
        rare_files.windows.numberOfWindow(ban.window)
      )
      put(changes, "W", ban.budget or "")
    end
  end
  if before.leases ~= leases then
    local words = {}
    local ____all = leases or ({}) for ____i = 1, #____all do local ____value = ____all[____i]
      local id = ____value.id
      local units = ____value.units
      local endsAtMs = ____value.endsAtMs
      words[#words + 1] = string.format("%d %d %d", id, units, endsAtMs)
      lastMs = math.max(lastMs, endsAtMs + rare_files.leasing.KNOWN_FOR_MS)
    end
    put(
      changes,
      "l",
      table.concat(words, " ")
    )
  end
  if before.tickets ~= tickets then
    local words = {}
    local ____all = tickets or ({}) for ____i = 1, #____all do local ____value = ____all[____i]
      local holder = ____value.holder
      local count = ____value.count
      local endsAtMs = ____value.endsAtMs
      words[#words + 1] = string.format("%s %d %d", holder, count, endsAtMs)
      lastMs = math.max(lastMs, endsAtMs)
    end
    put(
      changes,
      "f",
      table.concat(words, " ")
    )
  end
  return lastMs
end
rare_files.rare_fields = exports
return exports
end
end})
local function decision_script()
local decide_UNSEEN, decide_decide, decide_accountAfter
do
local admit, presentAccount, backOf, hasTopUps, isBanned, isLent
function admit(decision, budgets, rule, roomInFlight, terms)
  local ____decision_10 = decision
  local accounts = ____decision_10.accounts
  local nowMs = ____decision_10.nowMs
  local cost = ____decision_10.cost
  local n = ____decision_10.n
  local amounts = ____decision_10.amounts
  local room = charging_roomFor(decision, budgets, n)
  local admitted = room < roomInFlight and room or roomInFlight
  decision.admitted = admitted
  if admitted > 0 then
    do
      local i = 0
      while i < #budgets do
        local budget = budgets[i + 1]
        local spent = admitted * charging_chargeOf(budget, cost, amounts)
        if spent > 0 then
          charging_count(accounts[i + 1].windows, budget.limits, nowMs, spent)
        end
        i = i + 1
      end
    end
  end
  if (terms and terms.borrows) ~= nil or isLent(accounts) then
    rare_files.leasing.decideWithLeases(
      decision,
      budgets,
      rule,
      room,
      terms
    )
  elseif admitted < room then
    decision.isCrowded = true
  elseif admitted < n and rare_files.refusing.isStrike(budgets, rule, cost, amounts) then
    rare_files.refusing.strike(decision, budgets, rule)
  end
end
function presentAccount(before, i, rule, budgets, nowMs, n)
  local ____budgets_index_13 = budgets[i + 1]
  local limits = ____budgets_index_13.limits
  local earlier = before[i + 1]
  if earlier == nil then
    return {windows = {}}
  end
  local account = {windows = charging_presentWindows(earlier.windows, limits, nowMs)}
  if earlier.ban ~= nil then
    local ____refusing_currentBan_16 = rare_files.refusing.currentBan
    local ____earlier_ban_15 = earlier.ban
    local ____temp_14
    if i == rule.bansIn then
      ____temp_14 = rule.bans
    else
      ____temp_14 = nil
    end
    local ban = ____refusing_currentBan_16(
      ____earlier_ban_15,
      ____temp_14,
      nowMs,
      budgets,
      n == 0
    )
    if ban ~= nil then
      account.ban = ban
    end
  end
  if earlier.topUps ~= nil then
    local topUps = rare_files.special.topUpsOf(limits)
    if topUps ~= nil then
      account.topUps = topUps
    end
  end
  if earlier.leases ~= nil then
    account.leases = earlier.leases
  end
  if earlier.tickets ~= nil then
    account.tickets = earlier.tickets
  end
  return account
end
function backOf(before, budgets, nowMs)
  local backMs = 0
  do
    local i = 0
    while i < #budgets do
      local ____opt_17 = before[i + 1]
      local windows = ____opt_17 and ____opt_17.windows
      if windows ~= nil then
        local ____all = budgets[i + 1].limits for ____i = 1, #____all do local limit = ____all[____i]
          backMs = math.max(
            backMs,
            rare_files.counting.presentCount(windows[limit.window], limit, nowMs).backMs
          )
        end
      end
      i = i + 1
    end
  end
  return backMs
end
function hasTopUps(accounts)
  local ____all = accounts for ____i = 1, #____all do local account = ____all[____i]
    if (account and account.topUps) ~= nil then
      return true
    end
  end
  return false
end
function isBanned(accounts, nowMs)
  local ____all = accounts for ____i = 1, #____all do local ____value = ____all[____i]
    local ban = ____value.ban
    if ban ~= nil and nowMs < ban.untilMs then
      return true
    end
  end
  return false
end
function isLent(accounts)
  local ____all = accounts for ____i = 1, #____all do local ____value = ____all[____i]
    local leases = ____value.leases
    if leases ~= nil then
      return true
    end
  end
  return false
end
--- The account of an owner that the store has not seen.
decide_UNSEEN = {windows = {}}
--- Decides `n` simultaneous requests of `cost` each (contract section 3). With `n` 0 it returns the present state, without everything that has
-- ended by `nowMs`.
-- 
-- @param before the accounts of the budgets; the store has nothing of those that are missing
-- @param rule its instants include `nowMs`
-- @param nowMs the store's clock, Unix milliseconds. It may jump.
-- @param cost whole number from 1
-- @param details a gateway borrows only without a bound of requests in flight and without amounts
function decide_decide(before, rule, nowMs, cost, n, details)
  local budgets = hasTopUps(before) and rare_files.special.toppedUp(rule.budgets, before, nowMs) or rule.budgets
  local accounts = {presentAccount(
    before,
    0,
    rule,
    budgets,
    nowMs,
    n
  )}
  do
    local i = 1
    while i < #budgets do
      accounts[#accounts + 1] = presentAccount(
        before,
        i,
        rule,
        budgets,
        nowMs,
        n
      )
      i = i + 1
    end
  end
  local ____opt_0 = before[rule.bansIn + 1]
  if (____opt_0 and ____opt_0.strikes) ~= nil then
    rare_files.refusing.keepStrikes(
      before,
      accounts,
      rule,
      nowMs,
      backOf(before, budgets, nowMs)
    )
  end
  local decision = {
    nowMs = nowMs,
    cost = cost,
    n = n,
    admitted = 0,
    bannedFrom = n,
    accounts = accounts
  }
  local terms
  if details ~= nil then
    if details.amounts ~= nil then
      decision.amounts = details.amounts
    end
    terms = details.terms
    if (terms and terms.returned) ~= nil then
      rare_files.leasing.takeBack(decision, budgets, terms.returned)
    end
  end
  local roomInFlight = n
  if rule.isBounded then
    roomInFlight = rare_files.special.roomInFlight(decision, before, rule, details and details.inFlight)
  end
  if isBanned(accounts, nowMs) then
    decision.bannedFrom = 0
  elseif n == 0 or terms and terms.isFinal or not isLent(accounts) or not rare_files.leasing.waitToMove(decision, before, budgets) then
    admit(
      decision,
      budgets,
      rule,
      roomInFlight,
      terms
    )
  end
  if rule.isBounded then
    rare_files.special.addInFlight(decision, rule, details and details.inFlight)
  end
  return decision
end
--- The account that a store keeps after a decision, which returns only what its rule counts: the same object as in the decision, or one that
-- has also the windows that the rule does not count, as after a change of plans.
-- 
-- Slices become another kind when something is counted. If refusals did it, a client that polls two gateways that are in the
-- middle of a reload would move its count along with the present, and never be admitted again.
-- 
-- @param i the index of the budget
function decide_accountAfter(before, decision, i, rule)
  local after = decision.accounts[i + 1]
  local budget = rule.budgets[i + 1]
  local earlier = before or decide_UNSEEN
  if decision.n == 0 then
    return rare_files.special.afterReturn(earlier, after, budget, decision.nowMs)
  end
  if decision.awaitsMove then
    local kept = rare_files.special.keptAccount(earlier, decision, i, budget)
    kept.windows = earlier.windows
    return kept
  end
  if earlier.topUps ~= nil or earlier.ban ~= nil then
    return rare_files.special.keptAccount(earlier, decision, i, budget)
  end
  for name in pairs(earlier.windows) do
    local window = name
    local ____earlier_windows_window_21 = earlier.windows[window]
    local slices = ____earlier_windows_window_21.slices
    local left = after.windows[window]
    local ____temp_26
    if left == nil then
      ____temp_26 = charging_limitOf(budget, window) == nil
    else
      local ____temp_25 = slices ~= nil
      if ____temp_25 then
        local ____slices_per_24 = slices.per
        local ____opt_22 = left.slices
        ____temp_25 = ____slices_per_24 ~= (____opt_22 and ____opt_22.per)
      end
      ____temp_26 = ____temp_25
    end
    local isOther = ____temp_26
    if isOther then
      return rare_files.special.keptAccount(earlier, decision, i, budget)
    end
  end
  return after
end
end
local decision_reply_putAccounts
do
local putRest, banWindow
function putRest(reply, decision, ____bindingPattern0)
  local budgets
  budgets = ____bindingPattern0.budgets
  local ____decision_3 = decision
  local accounts = ____decision_3.accounts
  reply[#reply + 1] = decision.bannedFrom
  reply[#reply + 1] = decision.imposesBan and 1 or 0
  reply[#reply + 1] = decision.isCrowded and 1 or 0
  reply[#reply + 1] = decision.waitMs or 0
  reply[#reply + 1] = decision.mayReturn and 1 or 0
  reply[#reply + 1] = decision.lent == nil and 0 or decision.lent.units
  reply[#reply + 1] = decision.lent == nil and 0 or decision.lent.forMs
  local ____all = accounts for ____i = 1, #____all do local account = ____all[____i]
    local strikes = account.strikes
    local ban = account.ban
    reply[#reply + 1] = strikes == nil and 0 or strikes.count
    reply[#reply + 1] = strikes == nil and 0 or strikes.endsAtMs
    reply[#reply + 1] = ban == nil and 0 or ban.number
    reply[#reply + 1] = ban == nil and 0 or ban.untilMs
    reply[#reply + 1] = ban == nil and 0 or banWindow(ban, budgets)
  end
  do
    local i = 0
    while i < #accounts do
      local ____accounts_index_4 = accounts[i + 1]
      local topUps = ____accounts_index_4.topUps
      local ____all = budgets[i + 1].limits for ____i = 1, #____all do local ____value = ____all[____i]
        local window = ____value.window
        local topUp = topUps and topUps[window]
        if topUp ~= nil then
          reply[#reply + 1] = rare_files.windows.numberOfWindow(window) + 10 * i
          reply[#reply + 1] = topUp.amount
          reply[#reply + 1] = topUp.untilMs
        end
      end
      i = i + 1
    end
  end
end
function banWindow(____bindingPattern0, budgets)
  local budget
  local window
  window = ____bindingPattern0.window
  budget = ____bindingPattern0.budget
  local place = 0
  do
    local i = 1
    while i < #budgets do
      if budgets[i + 1].name == budget then
        place = 10 * i
      end
      i = i + 1
    end
  end
  return rare_files.windows.numberOfWindow(window) + place
end
function decision_reply_putAccounts(reply, decision, rule)
  local ____decision_0 = decision
  local accounts = ____decision_0.accounts
  local inFlight = ____decision_0.inFlight
  local ____rule_1 = rule
  local budgets = ____rule_1.budgets
  local sizeAt = #reply
  reply[sizeAt + 1] = 0
  reply[sizeAt + 1 + 1] = decision.admitted
  local size = sizeAt + 2
  local isPlain = decision.isCrowded == nil and decision.waitMs == nil and decision.mayReturn == nil and decision.lent == nil
  do
    local i = 0
    while i < #budgets do
      local account = accounts[i + 1]
      local windows = account.windows
      local ____all = budgets[i + 1].limits for ____i = 1, #____all do local ____value = ____all[____i]
        local window = ____value.window
        local slices = ____value.slices
        local count = windows[window]
        if slices == nil then
          reply[size + 1] = count == nil and 0 or count.used
          reply[size + 1 + 1] = count == nil and 0 or count.endsAtMs
          size = size + 2
        elseif count == nil then
          reply[size + 1] = 0
          size = size + 1
        else
          local ____count_slices_2 = count.slices
          local startsAtMs = ____count_slices_2.startsAtMs
          local first = ____count_slices_2.first
          local counts = ____count_slices_2.counts
          reply[size + 1] = #counts
          reply[size + 1 + 1] = startsAtMs
          reply[size + 2 + 1] = first
          size = size + 3
          local ____all = counts for ____i = 1, #____all do local one = ____all[____i]
            reply[size + 1] = one
            size = size + 1
          end
        end
      end
      if account.strikes ~= nil or account.ban ~= nil or account.topUps ~= nil then
        isPlain = false
      end
      i = i + 1
    end
  end
  if inFlight ~= nil then
    local ____all = inFlight for ____i = 1, #____all do local count = ____all[____i]
      if count >= 0 then
        reply[#reply + 1] = count
      end
    end
  end
  if not isPlain then
    putRest(reply, decision, rule)
  end
  reply[sizeAt + 1] = #reply - sizeAt - 1
end
end
local decision_script_main
do
local withBegun, record, recordAdmitted, HOUR_MS, begun
function withBegun(____bindingPattern0, at)
  local inFlight
  local terms
  local amounts
  amounts = ____bindingPattern0.amounts
  terms = ____bindingPattern0.terms
  inFlight = ____bindingPattern0.inFlight
  local all = {}
  do
    local i = 0
    while i < #inFlight do
      local one = inFlight[i + 1]
      all[#all + 1] = one < 0 and one or one + (begun[KEYS[at + i + 1]] or 0)
      i = i + 1
    end
  end
  return {inFlight = all, amounts = amounts, terms = terms}
end
function record(____bindingPattern0, decision, first)
  local details
  local cost
  local n
  local rule
  rule = ____bindingPattern0.rule
  n = ____bindingPattern0.n
  cost = ____bindingPattern0.cost
  details = ____bindingPattern0.details
  local ____rule_5 = rule
  local histories = ____rule_5.histories
  local units = ____rule_5.units
  local back = decision.tookBack
  local recorded = rule.recordsAll and n or decision.admitted
  if recorded == 0 and back == nil then
    return nil
  end
  local hour = math.floor(script_time_nowMs / HOUR_MS)
  local spent = recorded * cost + (decision.lent == nil and 0 or decision.lent.units)
  do
    local i = 0
    while i < histories do
      local key = KEYS[first + i + 1]
      if spent > 0 then
        local ____error = recordAdmitted(key, hour, spent)
        if ____error then
          return ____error
        end
      end
      if back ~= nil and back.units > 0 then
        local ____error = rare_files.late_costs.recordLate(key, back.hour, -back.units, hour)
        if ____error then
          return ____error
        end
      end
      i = i + 1
    end
  end
  do
    local i = 0
    while i < #units do
      local ____opt_6 = details and details.amounts
      local amount = recorded * (____opt_6 and ____opt_6[units[i + 1]] or 0)
      do
        local j = 0
        while amount > 0 and j < histories do
          local ____error = recordAdmitted(KEYS[first + histories * (i + 1) + j + 1], hour, amount)
          if ____error then
            return ____error
          end
          j = j + 1
        end
      end
      i = i + 1
    end
  end
  return nil
end
function recordAdmitted(key, hour, cost)
  local added = history_costs_addCost(key, hour, cost)
  if added == nil then
    return nil
  end
  return rare_files.stored_history.recordAgain(key, hour, cost, added)
end
HOUR_MS = 3600000
begun = {}
--- Decides about the consumer whose names begin at `at`, and appends its part of the reply.
-- 
-- @returns an error of the store
local function decideOne(run, at, reply)
  local ____run_0 = run
  local rule = ____run_0.rule
  local n = ____run_0.n
  local cost = ____run_0.cost
  local ____rule_1 = rule
  local budgets = ____rule_1.budgets
  local before = {}
  do
    local i = 0
    while i < #budgets do
      local loaded = stored_account_loadAccount(KEYS[at + i + 1], budgets[i + 1])
      if loaded == stored_account_FOREIGN then
        reply[#reply + 1] = 0
        return nil
      end
      if loaded.err ~= nil then
        return loaded
      end
      before[#before + 1] = loaded
      i = i + 1
    end
  end
  local ____temp_4
  local ____opt_2 = run.details
  if (____opt_2 and ____opt_2.inFlight) == nil then
    ____temp_4 = run.details
  else
    ____temp_4 = withBegun(run.details, at)
  end
  local details = ____temp_4
  local decision = decide_decide(
    before,
    rule,
    script_time_nowMs,
    cost,
    n,
    details
  )
  if n > 0 or decision.tookBack ~= nil then
    do
      local i = 0
      while i < #budgets do
        local key = KEYS[at + i + 1]
        local budget = budgets[i + 1]
        local after = decide_accountAfter(before[i + 1], decision, i, rule)
        local ____error = stored_account_saveAccount(
          key,
          budget,
          before[i + 1],
          after,
          rule.bans,
          script_time_nowMs
        )
        if ____error ~= nil then
          return ____error
        end
        if budget.inFlight ~= nil then
          begun[key] = (begun[key] or 0) + decision.admitted
        end
        i = i + 1
      end
    end
  end
  if decision.recalls ~= nil then
    local ____all = decision.recalls for ____i = 1, #____all do local i = ____all[____i]
      redis.pcall("PUBLISH", RECALLS, KEYS[at + i + 1])
    end
  end
  if rule.histories > 0 then
    local ____error = record(run, decision, at + #budgets)
    if ____error ~= nil then
      return ____error
    end
  end
  decision_reply_putAccounts(reply, decision, rule)
  return nil
end
--- Reads the numbers that only some runs have behind their first four.
-- 
-- @returns where the next run begins
local function readDetails(details, runs, from, rule, hasTerms)
  local ____rule_10 = rule
  local budgets = ____rule_10.budgets
  local units = ____rule_10.units
  local at = from
  if hasTerms then
    local terms = {}
    if runs[at + 1] > 0 then
      terms.borrows = {id = runs[at + 1 + 1], units = runs[at + 1], forMs = runs[at + 2 + 1]}
    end
    if runs[at + 3 + 1] == 1 then
      terms.isFinal = true
    end
    local id = runs[at + 4 + 1]
    local unused = runs[at + 5 + 1]
    at = at + 6
    if id > 0 then
      local places = {}
      local ____all = budgets for ____i = 1, #____all do local ____value = ____all[____i]
        local limits = ____value.limits
        local ofBudget = {}
        if unused > 0 then
          do
            local i = 0
            while i < #limits do
              ofBudget[#ofBudget + 1] = runs[at + i + 1]
              i = i + 1
            end
          end
          at = at + #limits
        end
        places[#places + 1] = ofBudget
      end
      terms.returned = {id = id, unused = unused, places = places}
    end
    details.terms = terms
  end
  if rule.isBounded then
    local inFlight = {}
    do
      local i = 0
      while i < #budgets do
        inFlight[#inFlight + 1] = runs[at + i + 1]
        i = i + 1
      end
    end
    at = at + #budgets
    details.inFlight = inFlight
  end
  if #units > 0 then
    local amounts = {}
    do
      local i = 0
      while i < #units do
        amounts[units[i + 1]] = runs[at + i + 1]
        i = i + 1
      end
    end
    at = at + #units
    details.amounts = amounts
  end
  return at
end
--- The script.
function decision_script_main()
  local rules = {}
  local last = history_costs_readGatewayClock(script_time_seconds)
  do
    local i = 1
    while i < last do
      local rule = cjson.decode(ARGV[i + 1])
      local ____all = rule.budgets for ____i = 1, #____all do local ____value = ____all[____i]
        local limits = ____value.limits
        if not stored_account_includeNow(limits, script_time_nowMs) then
          return cmsgpack.pack({script_time_nowMs})
        end
      end
      rules[#rules + 1] = rule
      i = i + 1
    end
  end
  local reply = {script_time_nowMs}
  local text = ARGV[1]
  local runs = text == "[2,1,1,1]" and ({2, 1, 1, 1}) or cjson.decode(text)
  local at = 0
  local i = 0
  while i < #runs do
    local rule = rules[runs[i + 1] - 2 + 1]
    local consumers = runs[i + 3 + 1]
    local details
    local n = runs[i + 1 + 1]
    local cost = runs[i + 2 + 1]
    i = i + 4
    if consumers == 0 or rule.isBounded or #rule.units > 0 then
      details = {}
      i = readDetails(
        details,
        runs,
        i,
        rule,
        consumers == 0
      )
    end
    local run = {rule = rule, n = n, cost = cost, details = details}
    local size = #rule.budgets + rule.histories * (1 + #rule.units)
    do
      local j = 0
      while j < math.max(consumers, 1) do
        local ____error = decideOne(run, at, reply)
        if ____error ~= nil then
          return ____error
        end
        at = at + size
        j = j + 1
      end
    end
  end
  if history_costs_historyState.unrecorded ~= nil then
    do
      local j = 0
      while j < #KEYS do
        if KEYS[j + 1] == history_costs_historyState.unrecorded then
          reply[#reply + 1] = j + 1
          break
        end
        j = j + 1
      end
    end
  end
  return cmsgpack.pack(reply)
end
end
return decision_script_main()
end
local function settlement_script()
local settle_settled
do
--- The windows of an account after the settlement of requests with one reservation. The part of the reserve that they did not use returns to
-- the windows and slices in which the store counted it, as far as they are open. What they used beyond the reserve counts now, even
-- beyond the limit.
-- 
-- @param delta what to add; negative to give back
-- @param places where the store counted the requests, by limit (`placeOf`)
-- @param nowMs the store's clock, Unix milliseconds
function settle_settled(before, delta, limits, places, nowMs)
  local windows = {}
  for name in pairs(before) do
    windows[name] = before[name]
  end
  do
    local i = 0
    while i < #limits do
      local limit = limits[i + 1]
      local count = before[limit.window]
      if count ~= nil and charging_isPresent(count, limit, nowMs) then
        local used = count.used
        local endsAtMs = count.endsAtMs
        if delta > 0 or endsAtMs == places[i + 1] then
          windows[limit.window] = {used = used + delta > 0 and used + delta or 0, endsAtMs = endsAtMs}
        end
      else
        local present = rare_files.counting.presentCount(count, limit, nowMs).count
        if delta > 0 then
          windows[limit.window] = rare_files.counting.countIn(present, limit, nowMs, delta)
        else
          local ____temp_4 = present ~= nil
          if ____temp_4 then
            local ____opt_0 = count and count.slices
            ____temp_4 = (____opt_0 and ____opt_0.per) == limit.slices
          end
          if ____temp_4 then
            local after = rare_files.counting.givenBack(present, limit, places[i + 1], -delta)
            if after == nil then
              windows = rare_files.counting.withoutWindow(windows, limit.window)
            elseif after ~= present then
              windows[limit.window] = after
            end
          end
        end
      end
      i = i + 1
    end
  end
  return windows
end
end
local settlement_script_main
do
--- Whether the history behind the `i`-th of KEYS is gone.
local function isDeleted(i, others, isRecorded)
  return isRecorded and redis.pcall("GETRANGE", KEYS[others + i + 1], 0, 0) == ""
end
--- The script.
function settlement_script_main()
  history_costs_readGatewayClock(script_time_seconds)
  local ____cjson_decode_result_0 = cjson.decode(ARGV[1])
  local delta = ____cjson_decode_result_0.delta
  local hour = ____cjson_decode_result_0.hour
  local isRecorded = ____cjson_decode_result_0.isRecorded
  local fields = ____cjson_decode_result_0.fields
  local limits = ____cjson_decode_result_0.limits
  local places = ____cjson_decode_result_0.places
  local others = isRecorded and #KEYS / 2 or #KEYS
  if not stored_account_includeNow(limits, script_time_nowMs) then
    return "CLOCK"
  end
  local key = KEYS[1]
  local values = #limits == 0 and ({}) or redis.pcall(
    "HMGET",
    key,
    unpack(fields)
  )
  local err = values.err
  if err ~= nil then
    return string.find(err, "WRONGTYPE", 1, true) == nil and ({err = err}) or "WRONGTYPE"
  end
  local windows = stored_account_windowsIn(values, limits)
  if windows == nil then
    return "FOREIGN"
  end
  local before = {windows = windows}
  local ____all = limits for ____i = 1, #____all do local ____value = ____all[____i]
    local window = ____value.window
    local count = windows[window]
    if count ~= nil and script_time_nowMs < count.endsAtMs and count.used > whole_number_MOST - math.max(delta, 0) then
      return "FOREIGN"
    end
  end
  local after = {windows = settle_settled(
    windows,
    delta,
    limits,
    places,
    script_time_nowMs
  )}
  if not isDeleted(0, others, isRecorded) then
    local ____error = stored_account_saveAccount(
      key,
      {fields = fields, limits = limits},
      before,
      after,
      nil,
      script_time_nowMs
    )
    if ____error ~= nil then
      return ____error
    end
  end
  do
    local i = 1
    while i < others do
      if not isDeleted(i, others, isRecorded) then
        local ____error = rare_files.late_costs.recordLate(
          KEYS[i + 1],
          hour,
          delta,
          math.floor(script_time_nowMs / 3600000)
        )
        if ____error then
          return ____error
        end
      end
      i = i + 1
    end
  end
  return 0
end
end
return settlement_script_main()
end
