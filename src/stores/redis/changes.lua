-- Made by `npm run engine:lua` of src/engine and src/stores/redis/shell, which say what it does: change those.
-- The line of TypeScript for each line is in changes.lua.map.
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
elseif name == "operator_changes" then
local exports = {topUpInForce = false, MAX_TOP_UP_NOTES = false, lift = false, carryBan = false, topUpRefusal = false, withTopUp = false, undoTopUp = false, resetUsage = false}
local copyOf, withWindow, topUpsBeside, notesInForce, endOf, notesWith, hasOwnEnd, setNotes
function copyOf(state)
  local ____state_25 = state
  local windows = ____state_25.windows
  local strikes = ____state_25.strikes
  local ban = ____state_25.ban
  local topUps = ____state_25.topUps
  local topUpNotes = ____state_25.topUpNotes
  local leases = ____state_25.leases
  local tickets = ____state_25.tickets
  return {
    windows = windows,
    strikes = strikes,
    ban = ban,
    topUps = topUps,
    topUpNotes = topUpNotes,
    leases = leases,
    tickets = tickets
  }
end
function withWindow(windows, window, used, endsAtMs)
  local copy = rare_files.counting.copyOfWindows(windows)
  copy[window] = {used = used, endsAtMs = endsAtMs}
  return copy
end
--- The sum of the top-ups of a window; undefined if it has none, or they have ended.
function exports.topUpInForce(state, window, nowMs)
  local ____opt_26 = state.topUps
  local topUp = ____opt_26 and ____opt_26[window]
  return topUp ~= nil and nowMs < topUp.untilMs and topUp or nil
end
function topUpsBeside(state, without, nowMs)
  local others
  if state.topUps == nil then
    return nil
  end
  for name in pairs(state.topUps) do
    local window = name
    local topUp = exports.topUpInForce(state, window, nowMs)
    if window ~= without and topUp ~= nil then
      if others == nil then
        others = {}
      end
      others[window] = topUp
    end
  end
  return others
end
function notesInForce(state, nowMs)
  local notes = {}
  local ____all = state.topUpNotes or ({}) for ____i = 1, #____all do local note = ____all[____i]
    if nowMs < note.untilMs then
      notes[#notes + 1] = note
    end
  end
  return notes
end
function endOf(state, limit, nowMs, terms)
  if (terms and terms.untilMs) ~= nil then
    return terms.untilMs
  end
  if limit.slices ~= nil then
    return nowMs + limit.lengthMs
  end
  local open = rare_files.counting.presentCount(state.windows[limit.window], limit, nowMs).count
  return open == nil and rare_files.counting.endIfOpened(limit, nowMs) or open.endsAtMs
end
function notesWith(before, window, untilMs, amount, atMs, terms)
  local ofWindow = 0
  local ____all = before for ____i = 1, #____all do local note = ____all[____i]
    if note.window == window then
      ofWindow = ofWindow + 1
    end
  end
  local isFull = terms ~= nil and ofWindow >= exports.MAX_TOP_UP_NOTES
  local notes = {}
  local ____all = before for ____i = 1, #____all do local note = ____all[____i]
    local id = note.id
    local isOwn = note.hasOwnEnd
    local reason = note.reason
    if note.window ~= window then
      notes[#notes + 1] = note
    elseif isFull then
      isFull = false
    else
      notes[#notes + 1] = {
        id = id,
        window = window,
        amount = note.amount,
        atMs = note.atMs,
        untilMs = untilMs,
        hasOwnEnd = isOwn,
        reason = reason
      }
    end
  end
  if terms ~= nil then
    local ____terms_30 = terms
    local id = ____terms_30.id
    local reason = ____terms_30.reason
    if reason == nil then
      reason = ""
    end
    notes[#notes + 1] = {
      id = id,
      window = window,
      amount = amount,
      atMs = atMs,
      untilMs = untilMs,
      hasOwnEnd = hasOwnEnd(before, window, terms),
      reason = reason
    }
  end
  return notes
end
function hasOwnEnd(notes, window, terms)
  if (terms and terms.untilMs) ~= nil then
    return true
  end
  local ____all = notes for ____i = 1, #____all do local note = ____all[____i]
    if note.window == window and note.hasOwnEnd then
      return true
    end
  end
  return false
end
function setNotes(state, notes)
  local ____state_34 = state
  local ____temp_33
  if #notes == 0 then
    ____temp_33 = nil
  else
    ____temp_33 = notes
  end
  ____state_34.topUpNotes = ____temp_33
end
--- How many top-ups of a window an account keeps one by one. The amounts of older ones stay in its sum.
exports.MAX_TOP_UP_NOTES = 50
local NOTHING = {amount = 0, untilMs = 0}
--- Lifts the ban in force: clears the strikes, and takes back the rung (contract section 1).
function exports.lift(state, nowMs)
  local ____state_0 = state
  local ban = ____state_0.ban
  if ban == nil or nowMs >= ban.untilMs then
    return state
  end
  local left = copyOf(state)
  left.strikes = nil
  local ____temp_1
  if ban.number == 1 then
    ____temp_1 = nil
  else
    ____temp_1 = rare_files.refusing.withEnd(ban, ban.number - 1, nowMs)
  end
  left.ban = ____temp_1
  return left
end
--- Copies a ban of another account here, unless it has ended or this account has one that ends later.
function exports.carryBan(state, ban, nowMs)
  if nowMs >= ban.untilMs or state.ban ~= nil and state.ban.untilMs >= ban.untilMs then
    return state
  end
  local changed = copyOf(state)
  changed.ban = ban
  return changed
end
--- Says why the engine refuses a top-up; undefined if it does not.
-- 
-- @param mostLimit the largest that a limit may be
function exports.topUpRefusal(state, limit, amount, nowMs, mostLimit, terms)
  local ____limit_2 = limit
  local window = ____limit_2.window
  local before = exports.topUpInForce(state, window, nowMs)
  if (terms and terms.untilMs) ~= nil and nowMs >= terms.untilMs then
    return "past"
  end
  if amount > mostLimit - limit.limit - (before and before.amount or 0) then
    return "too-much"
  end
  local isBound = hasOwnEnd(
    notesInForce(state, nowMs),
    window,
    terms
  )
  if before ~= nil and isBound and before.untilMs ~= endOf(state, limit, nowMs, terms) then
    return "other-end"
  end
  return nil
end
--- Adds `amount` to the limit of a window until that window ends (contract section 3), or until the end in `terms`. A fixed or
-- calendar window that is not open opens now. A sliding window has no end, so the amount stays for one length. A further top-up of
-- the same window adds to the first, and both stay until the later end; but the store keeps an end that an operator has named.
-- 
-- It bounds the sum by the largest limit and refuses no top-up: the caller asks `topUpRefusal` first.
-- 
-- @param amount whole number from 1
-- @returns the sum of the window, and the end that this top-up asked for
function exports.withTopUp(state, limit, amount, nowMs, mostLimit, terms)
  local ____limit_7 = limit
  local window = ____limit_7.window
  local before = exports.topUpInForce(state, window, nowMs) or NOTHING
  local endsAtMs = endOf(state, limit, nowMs, terms)
  local sum = math.min(before.amount + amount, mostLimit - limit.limit)
  local topUp = {
    amount = sum,
    untilMs = math.max(before.untilMs, endsAtMs)
  }
  local changed = copyOf(state)
  if limit.slices == nil and (terms and terms.untilMs) == nil then
    local ____opt_10 = rare_files.counting.presentCount(state.windows[window], limit, nowMs).count
    local used = ____opt_10 and ____opt_10.used or 0
    changed.windows = withWindow(state.windows, window, used, endsAtMs)
  end
  local topUps = topUpsBeside(state, window, nowMs) or ({})
  topUps[window] = topUp
  changed.topUps = topUps
  setNotes(
    changed,
    notesWith(
      notesInForce(state, nowMs),
      window,
      topUp.untilMs,
      amount,
      nowMs,
      terms
    )
  )
  return {topUp = topUp, endsAtMs = endsAtMs, state = changed}
end
--- Undoes top-ups of a window. The counts stay.
-- 
-- @param id of one top-up; left out: all of the window that are in force
-- @returns undefined if no such top-up is in force
function exports.undoTopUp(state, window, id, nowMs)
  local before = exports.topUpInForce(state, window, nowMs)
  local kept = {}
  local meant = 0
  local ____all = notesInForce(state, nowMs) for ____i = 1, #____all do local note = ____all[____i]
    if note.window == window and (id == nil or note.id == id) then
      meant = meant + note.amount
    else
      kept[#kept + 1] = note
    end
  end
  if before == nil or id ~= nil and meant == 0 then
    return nil
  end
  local amount = id == nil and before.amount or math.min(meant, before.amount)
  local left = before.amount - amount
  local untilMs = before.untilMs
  local changed = copyOf(state)
  changed.topUps = topUpsBeside(state, window, nowMs)
  if left > 0 then
    local topUps = changed.topUps or ({})
    topUps[window] = {amount = left, untilMs = untilMs}
    changed.topUps = topUps
  end
  setNotes(changed, kept)
  return {undone = {amount = amount, left = left, untilMs = untilMs}, state = changed}
end
--- Sets the counts of some windows to 0, and clears the strikes. Top-ups and a ban stay, and a fixed or calendar window keeps its end.
-- 
-- @param upToMs a count that ends later stays; left out: none does
-- @returns also the counts of the windows before, and when the last of them would have ended
function exports.resetUsage(state, names, nowMs, upToMs)
  local windows = state.windows
  local endsAtMs = nowMs
  local used = {}
  local ____all = names for ____i = 1, #____all do local window = ____all[____i]
    local count = state.windows[window]
    local lengthMs = rare_files.counting.WINDOW_MS[window]
    local ____counting_presentCount_18 = rare_files.counting.presentCount
    local ____window_16 = window
    local ____lengthMs_17 = lengthMs
    local ____opt_12 = count and count.slices
    local present = ____counting_presentCount_18(count, {window = ____window_16, lengthMs = ____lengthMs_17, limit = 0, slices = ____opt_12 and ____opt_12.per}, nowMs).count
    used[window] = present and present.used or 0
    if count ~= nil and nowMs < count.endsAtMs then
      if count.slices == nil then
        endsAtMs = math.max(endsAtMs, count.endsAtMs)
        if upToMs == nil or count.endsAtMs <= upToMs then
          windows = withWindow(windows, window, 0, count.endsAtMs)
        end
      else
        endsAtMs = math.max(endsAtMs, present and present.endsAtMs or 0)
        local others = rare_files.counting.withoutWindow(windows, window)
        local ____temp_23
        if present == nil or upToMs == nil then
          ____temp_23 = nil
        else
          ____temp_23 = rare_files.counting.leavingAfter(present, lengthMs, upToMs)
        end
        local later = ____temp_23
        if later ~= nil then
          others[window] = later
        end
        windows = others
      end
    end
  end
  local ____state_24 = state
  local strikes = ____state_24.strikes
  local struck = strikes ~= nil and nowMs < strikes.endsAtMs and strikes.count or 0
  local changed = copyOf(state)
  changed.windows = windows
  changed.strikes = nil
  changed.leases = nil
  return {used = used, strikes = struck, endsAtMs = endsAtMs, state = changed}
end
rare_files.operator_changes = exports
return exports
elseif name == "once" then
local exports = {lastEndMs = false, madeBefore = false, remember = false}
--- The end that the change had, if a gateway repeats it after a failover, Unix milliseconds; else undefined.
exports.lastEndMs = tonumber(ARGV[2])
--- The reply if the store has made a change under this id before; else undefined.
function exports.madeBefore()
  local made = redis.call("GET", KEYS[2])
  if made == false then
    return nil
  end
  local words = string.match(made, "^(.*) %d+$")
  local endsAtMs = string.match(made, " (%d+)$")
  if words == nil or endsAtMs == nil then
    return nil
  end
  redis.call("PEXPIRE", KEYS[2], ARGV[3])
  return words == ARGV[1] and ({
    "repeated",
    tonumber(endsAtMs)
  }) or ({"reused"})
end
function exports.remember(endsAtMs)
  redis.call(
    "SET",
    KEYS[2],
    string.format("%s %d", ARGV[1], endsAtMs),
    "PX",
    ARGV[3]
  )
end
rare_files.once = exports
return exports
elseif name == "window_fields" then
local exports = {windowFields = false, unlimited = false}
local FIELDS = {
  second = {"s", "S"},
  minute = {"m", "M"},
  hour = {"h", "H"},
  day = {"d", "D"},
  week = {"k", "K"},
  month = {"n", "N"}
}
--- The fields of some windows: two for each, its count and its end (stored-account.ts).
function exports.windowFields(windows)
  local fields = {}
  local ____all = windows for ____i = 1, #____all do local window = ____all[____i]
    fields[#fields + 1] = FIELDS[window][1]
    fields[#fields + 1] = FIELDS[window][2]
  end
  return fields
end
--- Limits of 0 for these windows, as fixed ones: enough to read and write their counts.
function exports.unlimited(windows)
  local limits = {}
  local ____all = windows for ____i = 1, #____all do local window = ____all[____i]
    limits[#limits + 1] = {window = window, lengthMs = rare_files.counting.WINDOW_MS[window], limit = 0}
  end
  return limits
end
rare_files.window_fields = exports
return exports
elseif name == "top_up_fields" then
local exports = {loadToppedUp = false, saveToppedUp = false}
local notesIn, noteIn, keepWords, windowsOf
function notesIn(text)
  local words = {}
  local next = string.gmatch(text, "%S+")
  do
    local word = next()
    while word ~= nil do
      words[#words + 1] = word
      word = next()
    end
  end
  local notes = {}
  local at = 0
  while at + 7 <= #words do
    local note = noteIn(words, at)
    if note ~= nil then
      notes[#notes + 1] = note
    end
    at = at + (note == nil and 1 or 7)
  end
  return notes
end
function noteIn(words, at)
  local window = rare_files.windows.WINDOWS[whole_number_wholeIn(words[at + 1 + 1]) or 0]
  local amount = whole_number_wholeIn(words[at + 2 + 1])
  local untilMs = whole_number_wholeIn(words[at + 3 + 1])
  local own = words[at + 4 + 1]
  local atMs = whole_number_wholeIn(words[at + 5 + 1])
  local reason = string.match(words[at + 6 + 1], "^=(.*)$")
  if window == nil or amount == nil or untilMs == nil then
    return nil
  end
  if atMs == nil or reason == nil or own ~= "0" and own ~= "1" then
    return nil
  end
  return {
    id = words[at + 1],
    window = window,
    amount = amount,
    untilMs = untilMs,
    hasOwnEnd = own == "1",
    atMs = atMs,
    reason = reason
  }
end
function keepWords(key, field, words)
  if #words == 0 then
    redis.call("HDEL", key, field)
  else
    redis.call(
      "HSET",
      key,
      field,
      table.concat(words, " ")
    )
  end
end
function windowsOf(limits)
  local windows = {}
  local ____all = limits for ____i = 1, #____all do local ____value = ____all[____i]
    local window = ____value.window
    windows[#windows + 1] = window
  end
  return windows
end
--- Reads the parts of an account that top-ups of the windows of `limits` need.
function exports.loadToppedUp(key, limits)
  local fields = rare_files.window_fields.windowFields(windowsOf(limits))
  fields[#fields + 1] = "t"
  fields[#fields + 1] = "T"
  local values = redis.pcall(
    "HMGET",
    key,
    unpack(fields)
  )
  local err = values.err
  if err ~= nil then
    return string.find(err, "WRONGTYPE", 1, true) == nil and ({err = err}) or stored_account_FOREIGN
  end
  local windows = stored_account_windowsIn(values, limits)
  if windows == nil then
    return stored_account_FOREIGN
  end
  local account = {windows = windows}
  local sums = values[2 * #limits + 1]
  if not rare_files.rare_fields.readRare(account, key, {
    false,
    false,
    false,
    false,
    false,
    sums,
    false
  }, 0) then
    return stored_account_FOREIGN
  end
  local notes = values[2 * #limits + 1 + 1]
  if notes ~= false then
    account.topUpNotes = notesIn(notes)
  end
  return account
end
--- Writes the top-ups, and the changed windows of `limits`.
-- 
-- @returns an error of the store
function exports.saveToppedUp(key, limits, before, after)
  local ____error = stored_account_saveAccount(
    key,
    {
      fields = rare_files.window_fields.windowFields(windowsOf(limits)),
      limits = limits
    },
    before,
    after,
    nil,
    script_time_nowMs
  )
  if ____error ~= nil then
    return ____error
  end
  local sums = {}
  local lastMs = 0
  local ____all = rare_files.windows.WINDOWS for ____i = 1, #____all do local window = ____all[____i]
    local ____opt_0 = after.topUps
    local topUp = ____opt_0 and ____opt_0[window]
    if topUp ~= nil then
      sums[#sums + 1] = string.format(
        "%d %d %d",
        rare_files.windows.numberOfWindow(window),
        topUp.amount,
        topUp.untilMs
      )
      lastMs = math.max(lastMs, topUp.untilMs)
    end
  end
  local notes = {}
  local ____all = after.topUpNotes or ({}) for ____i = 1, #____all do local ____value = ____all[____i]
    local id = ____value.id
    local window = ____value.window
    local amount = ____value.amount
    local untilMs = ____value.untilMs
    local hasOwnEnd = ____value.hasOwnEnd
    local atMs = ____value.atMs
    local reason = ____value.reason
    local own = hasOwnEnd and 1 or 0
    notes[#notes + 1] = string.format(
      "%s %d %d %d %d %d =%s",
      id,
      rare_files.windows.numberOfWindow(window),
      amount,
      untilMs,
      own,
      atMs,
      reason
    )
  end
  keepWords(key, "t", sums)
  keepWords(key, "T", notes)
  if lastMs > script_time_nowMs + redis.call("PTTL", key) then
    redis.call("PEXPIREAT", key, lastMs)
  end
  return nil
end
rare_files.top_up_fields = exports
return exports
elseif name == "reconcile" then
local exports = {reconciled = false}
--- The windows of an account with usage that a gateway brings late (contract section 6).
-- 
-- It opens no window again that has ended in the store or in the gateway. If both are open and end at different times (the
-- store was emptied, or had no window yet), they become one window that ends with the earlier of them. So a client that waits
-- for the end of either has waited long enough. It counts the cost of a sliding window in the slice of the present.
-- 
-- @param shiftMs how much later the store's clock is than the one by which the usage ends
-- @returns also for each part of the usage whether it was added
function exports.reconciled(before, late, nowMs, shiftMs)
  local windows = rare_files.counting.copyOfWindows(before)
  local added = {}
  local ____all = late for ____i = 1, #____all do local ____value = ____all[____i]
    local window = ____value.window
    local slices = ____value.slices
    local isCalendar = ____value.isCalendar
    local spent = ____value.spent
    local ends = ____value.endsAtMs
    local lengthMs = rare_files.counting.WINDOW_MS[window]
    local isFixed = slices == nil and not isCalendar
    local endsAtMs = isFixed and math.min(ends + shiftMs, nowMs + lengthMs) or ends + shiftMs
    added[#added + 1] = endsAtMs > nowMs
    if endsAtMs > nowMs then
      local limit = slices == nil and ({window = window, lengthMs = lengthMs, limit = 0, instants = {endsAtMs}}) or ({window = window, lengthMs = lengthMs, limit = 0, slices = slices})
      local present = rare_files.counting.presentCount(windows[window], limit, nowMs).count
      windows[window] = rare_files.counting.countIn(present, limit, nowMs, spent)
    end
  end
  return {windows = windows, added = added}
end
rare_files.reconcile = exports
return exports
end
end})
local function top_up_script()
local top_up_script_main
do
--- A limit whose window or length ends at `endsAtMs` if it opens now.
local function endingAt(____bindingPattern0, endsAtMs)
  local slices
  local limit
  local lengthMs
  local window
  window = ____bindingPattern0.window
  lengthMs = ____bindingPattern0.lengthMs
  limit = ____bindingPattern0.limit
  slices = ____bindingPattern0.slices
  if slices ~= nil then
    return {window = window, lengthMs = endsAtMs - script_time_nowMs, limit = limit, slices = slices}
  end
  return {window = window, lengthMs = lengthMs, limit = limit, instants = {endsAtMs}}
end
--- The script.
function top_up_script_main()
  local earlier = rare_files.once.madeBefore()
  if earlier ~= nil then
    return earlier
  end
  local ____cjson_decode_result_0 = cjson.decode(ARGV[4])
  local asked = ____cjson_decode_result_0.limit
  local amount = ____cjson_decode_result_0.amount
  local mostLimit = ____cjson_decode_result_0.mostLimit
  local terms = ____cjson_decode_result_0.terms
  if rare_files.once.lastEndMs ~= nil and script_time_nowMs >= rare_files.once.lastEndMs then
    rare_files.once.remember(rare_files.once.lastEndMs)
    return {"repeated", rare_files.once.lastEndMs}
  end
  if rare_files.once.lastEndMs == nil and not stored_account_includeNow({asked}, script_time_nowMs) then
    return {"outside", script_time_nowMs}
  end
  local limit = rare_files.once.lastEndMs == nil and asked or endingAt(asked, rare_files.once.lastEndMs)
  local key = KEYS[1]
  local loaded = rare_files.top_up_fields.loadToppedUp(key, {limit})
  if loaded == stored_account_FOREIGN then
    return {stored_account_FOREIGN}
  end
  if loaded.err ~= nil then
    return loaded
  end
  local before = loaded
  local refusal = rare_files.operator_changes.topUpRefusal(
    before,
    limit,
    amount,
    script_time_nowMs,
    mostLimit,
    terms
  )
  local inForce = rare_files.operator_changes.topUpInForce(before, limit.window, script_time_nowMs)
  if refusal == "past" then
    return {"past"}
  end
  if refusal == "too-much" then
    return {"too_much", inForce and inForce.amount or 0}
  end
  if refusal == "other-end" then
    return {"other_end", inForce.amount, inForce.untilMs}
  end
  local ____withTopUp_result_3 = rare_files.operator_changes.withTopUp(
    before,
    limit,
    amount,
    script_time_nowMs,
    mostLimit,
    terms
  )
  local topUp = ____withTopUp_result_3.topUp
  local endsAtMs = ____withTopUp_result_3.endsAtMs
  local state = ____withTopUp_result_3.state
  local ____error = rare_files.top_up_fields.saveToppedUp(key, {limit}, before, state)
  if ____error ~= nil then
    return ____error
  end
  rare_files.once.remember(endsAtMs)
  return {"made", endsAtMs, topUp.amount, topUp.untilMs}
end
end
return top_up_script_main()
end
local function undo_top_up_script()
local undo_top_up_script_main
do
--- The script.
function undo_top_up_script_main()
  local earlier = rare_files.once.madeBefore()
  if earlier ~= nil then
    return earlier
  end
  local ____cjson_decode_result_0 = cjson.decode(ARGV[4])
  local window = ____cjson_decode_result_0.window
  local id = ____cjson_decode_result_0.id
  local key = KEYS[1]
  local loaded = rare_files.top_up_fields.loadToppedUp(key, {})
  if loaded == stored_account_FOREIGN then
    return {stored_account_FOREIGN}
  end
  if loaded.err ~= nil then
    return loaded
  end
  local before = loaded
  local done = rare_files.operator_changes.undoTopUp(before, window, id, script_time_nowMs)
  if done == nil then
    if rare_files.once.lastEndMs == nil then
      return {"none"}
    end
    rare_files.once.remember(rare_files.once.lastEndMs)
    return {"repeated", rare_files.once.lastEndMs}
  end
  local ____error = rare_files.top_up_fields.saveToppedUp(key, {}, before, done.state)
  if ____error ~= nil then
    return ____error
  end
  local ____done_undone_1 = done.undone
  local untilMs = ____done_undone_1.untilMs
  local amount = ____done_undone_1.amount
  local left = ____done_undone_1.left
  rare_files.once.remember(untilMs)
  return {"made", untilMs, amount, left}
end
end
return undo_top_up_script_main()
end
local function reset_script()
local reset_script_main
do
local read, readableOf, callBack, FIELDS, LIMITS
function read(key)
  return redis.pcall(
    "HMGET",
    key,
    "x",
    "X",
    "b",
    "B",
    "w",
    "t",
    "l",
    unpack(FIELDS)
  )
end
function readableOf(key, values, unreadable)
  local windows = {}
  local account = {windows = windows}
  do
    local i = 0
    while i < #rare_files.windows.WINDOWS do
      local window = rare_files.windows.WINDOWS[i + 1]
      local counts = stored_account_windowsIn({values[7 + 2 * i + 1], values[8 + 2 * i + 1]}, {LIMITS[i + 1]})
      if counts == nil then
        unreadable[#unreadable + 1] = FIELDS[2 * i + 1]
        unreadable[#unreadable + 1] = FIELDS[2 * i + 1 + 1]
      elseif counts[window] ~= nil then
        windows[window] = counts[window]
      end
      i = i + 1
    end
  end
  local x, X, b, B, w, t, l = unpack(values, 1, 7)
  rare_files.rare_fields.readRare(account, key, {
    x,
    X,
    false,
    false,
    false,
    false,
    l
  }, 0)
  if not rare_files.rare_fields.readRare(account, key, {
    false,
    false,
    b,
    B,
    w,
    false,
    false
  }, 0) then
    local ____all = {"b", "B", "w", "W"} for ____i = 1, #____all do local field = ____all[____i]
      unreadable[#unreadable + 1] = field
    end
  end
  if not rare_files.rare_fields.readRare(account, key, {
    false,
    false,
    false,
    false,
    false,
    t,
    false
  }, 0) then
    local ____all = {"t", "T"} for ____i = 1, #____all do local field = ____all[____i]
      unreadable[#unreadable + 1] = field
    end
  end
  return account
end
function callBack(key, leases)
  if leases == nil then
    return nil
  end
  local ____error = stored_account_saveAccount(
    key,
    {fields = {}, limits = {}},
    {windows = {}},
    {windows = {}, leases = leases},
    nil,
    script_time_nowMs
  )
  redis.pcall("PUBLISH", RECALLS, key)
  return ____error
end
FIELDS = rare_files.window_fields.windowFields(rare_files.windows.WINDOWS)
LIMITS = rare_files.window_fields.unlimited(rare_files.windows.WINDOWS)
--- The script.
function reset_script_main()
  local earlier = rare_files.once.madeBefore()
  if earlier ~= nil then
    return earlier
  end
  local key = KEYS[1]
  local values = read(key)
  local ____values_0 = values
  local err = ____values_0.err
  if err ~= nil then
    if string.find(err, "WRONGTYPE", 1, true) == nil then
      return {err = err}
    end
    redis.call("DEL", key)
    values = read(key)
  end
  local unreadable = {}
  local before = readableOf(key, values, unreadable)
  if rare_files.once.lastEndMs == nil then
    local leases = rare_files.leasing.recalled(before, script_time_nowMs)
    local waitMs = rare_files.leasing.waitFor(leases == nil and before or ({windows = {}, leases = leases}), script_time_nowMs)
    if waitMs > 0 then
      return callBack(key, leases) or ({"lent", waitMs})
    end
  end
  local names = cjson.decode(ARGV[4])
  local ____resetUsage_result_1 = rare_files.operator_changes.resetUsage(before, names, script_time_nowMs, rare_files.once.lastEndMs)
  local used = ____resetUsage_result_1.used
  local strikes = ____resetUsage_result_1.strikes
  local endsAtMs = ____resetUsage_result_1.endsAtMs
  local state = ____resetUsage_result_1.state
  redis.call(
    "HDEL",
    key,
    "x",
    "X",
    "l",
    unpack(unreadable)
  )
  local windows = before.windows
  local ____error = stored_account_saveAccount(
    key,
    {fields = FIELDS, limits = LIMITS},
    {windows = windows},
    {windows = state.windows},
    nil,
    script_time_nowMs
  )
  if ____error ~= nil then
    return ____error
  end
  local reply = {"made", rare_files.once.lastEndMs or endsAtMs, strikes}
  local ____all = names for ____i = 1, #____all do local name = ____all[____i]
    reply[#reply + 1] = used[name]
  end
  rare_files.once.remember(rare_files.once.lastEndMs or endsAtMs)
  return reply
end
end
return reset_script_main()
end
local function lift_script()
local lift_script_main
do
--- The script.
function lift_script_main()
  local key = KEYS[1]
  local change = ARGV[1]
  local isAgain = ARGV[2] ~= ""
  if isAgain then
    if noted(change) then
      return false
    end
    note(change)
  end
  local values = redis.pcall(
    "HMGET",
    key,
    "b",
    "B",
    "w"
  )
  local err = values.err
  if err ~= nil then
    return string.find(err, "WRONGTYPE", 1, true) == nil and ({err = err}) or false
  end
  local before = {windows = {}}
  if not rare_files.rare_fields.readRare(before, key, {
    false,
    false,
    values[1],
    values[2],
    values[3],
    false,
    false
  }, 0) then
    return false
  end
  local after = rare_files.operator_changes.lift(before, script_time_nowMs)
  if after == before or isAgain and values[2] ~= ARGV[2] then
    return false
  end
  redis.call("HDEL", key, "x", "X")
  if after.ban == nil then
    redis.call(
      "HDEL",
      key,
      "b",
      "B",
      "w",
      "W"
    )
  else
    redis.call(
      "HSET",
      key,
      "b",
      after.ban.number,
      "B",
      after.ban.untilMs
    )
  end
  if not isAgain then
    note(change)
  end
  return values[2]
end
end
return lift_script_main()
end
local function carry_ban_script()
local carry_ban_script_main
do
--- The script.
function carry_ban_script_main()
  local ____cjson_decode_result_0 = cjson.decode(ARGV[1])
  local ban = ____cjson_decode_result_0.ban
  local keptMs = ____cjson_decode_result_0.keptMs
  local key = KEYS[1]
  local values = redis.pcall(
    "HMGET",
    key,
    "b",
    "B",
    "w"
  )
  local err = values.err
  if err ~= nil then
    return string.find(err, "WRONGTYPE", 1, true) == nil and ({err = err}) or 0
  end
  local before = {windows = {}}
  if not rare_files.rare_fields.readRare(before, key, {
    false,
    false,
    values[1],
    values[2],
    values[3],
    false,
    false
  }, 0) then
    return 0
  end
  local after = rare_files.operator_changes.carryBan(before, ban, script_time_nowMs)
  if after == before then
    return 0
  end
  local ____error = stored_account_saveAccount(
    key,
    {fields = {}, limits = {}},
    before,
    after,
    nil,
    script_time_nowMs
  )
  if ____error ~= nil then
    return ____error
  end
  if keptMs > redis.call("PTTL", key) then
    redis.call("PEXPIRE", key, keptMs)
  end
  return 1
end
end
return carry_ban_script_main()
end
local function read_bans_script()
local read_bans_script_main
do
local FIELDS = rare_files.window_fields.windowFields(rare_files.windows.WINDOWS)
local LIMITS = rare_files.window_fields.unlimited(rare_files.windows.WINDOWS)
local function readBan(key)
  local values = redis.pcall(
    "HMGET",
    key,
    "x",
    "X",
    "b",
    "B",
    "w",
    "t",
    "l",
    unpack(FIELDS)
  )
  local err = values.err
  if err ~= nil then
    return string.find(err, "WRONGTYPE", 1, true) == nil and ({err = err}) or ({0})
  end
  local account = {windows = {}}
  local x, X, b, B, w = unpack(values, 1, 5)
  local isReadable = rare_files.rare_fields.readRare(account, key, {
    false,
    false,
    b,
    B,
    w,
    false,
    false
  }, 0)
  local counts = {}
  do
    local i = 0
    while i < #FIELDS do
      counts[#counts + 1] = values[7 + i + 1]
      i = i + 1
    end
  end
  local isWhole = isReadable and rare_files.rare_fields.readRare(account, key, {
    x,
    X,
    false,
    false,
    false,
    values[6],
    false
  }, 0) and stored_account_windowsIn(counts, LIMITS) ~= nil and 1 or 0
  local ban = account.ban
  return ban == nil and ({isWhole}) or ({
    isWhole,
    ban.number,
    ban.untilMs,
    ban.window,
    ban.budget or ""
  })
end
--- The script.
function read_bans_script_main()
  local replies = {}
  local ____all = KEYS for ____i = 1, #____all do local key = ____all[____i]
    local reply = readBan(key)
    if reply.err ~= nil then
      return reply
    end
    replies[#replies + 1] = reply
  end
  return replies
end
end
return read_bans_script_main()
end
local function in_flight_script()
local in_flight_script_main
do
--- The script.
function in_flight_script_main()
  local key = KEYS[1]
  local text = redis.pcall("HGET", key, "f")
  if text ~= false and type(text) ~= "string" then
    return "WRONGTYPE"
  end
  local before = rare_files.rare_fields.ticketsIn(text)
  local tickets = rare_files.special.reported(
    before,
    ARGV[1],
    tonumber(ARGV[2]),
    script_time_nowMs
  )
  if #tickets == 0 then
    redis.call("HDEL", key, "f")
    return 0
  end
  local account = {windows = {}, tickets = tickets}
  return stored_account_saveAccount(
    key,
    {fields = {}, limits = {}},
    {windows = {}, tickets = before},
    account,
    nil,
    script_time_nowMs
  ) or 0
end
end
return in_flight_script_main()
end
local function reconcile_script()
local reconcile_script_main
do
local HOUR_MS = 3600000
--- The script.
function reconcile_script_main()
  history_costs_readGatewayClock(script_time_seconds)
  local ____cjson_decode_result_0 = cjson.decode(ARGV[1])
  local ownNowMs = ____cjson_decode_result_0.ownNowMs
  local late = ____cjson_decode_result_0.windows
  local hours = ____cjson_decode_result_0.hours
  local shiftMs = ownNowMs > 0 and script_time_nowMs - ownNowMs or 0
  local names = {}
  local ____all = late for ____i = 1, #____all do local ____value = ____all[____i]
    local window = ____value.window
    names[#names + 1] = window
  end
  local fields = rare_files.window_fields.windowFields(names)
  local limits = rare_files.window_fields.unlimited(names)
  local key = KEYS[1]
  local values = #names == 0 and ({}) or redis.pcall(
    "HMGET",
    key,
    unpack(fields)
  )
  local err = values.err
  if err ~= nil then
    return string.find(err, "WRONGTYPE", 1, true) == nil and ({err = err}) or "WRONGTYPE"
  end
  local before = stored_account_windowsIn(values, limits)
  if before == nil then
    return "FOREIGN"
  end
  local ____all = late for ____i = 1, #____all do local ____value = ____all[____i]
    local window = ____value.window
    local spent = ____value.spent
    local count = before[window]
    if count ~= nil and script_time_nowMs < count.endsAtMs and count.used > whole_number_MOST - spent then
      return "FOREIGN"
    end
  end
  local ____reconciled_result_1 = rare_files.reconcile.reconciled(before, late, script_time_nowMs, shiftMs)
  local windows = ____reconciled_result_1.windows
  local added = ____reconciled_result_1.added
  local ____error = stored_account_saveAccount(
    key,
    {fields = fields, limits = limits},
    {windows = before},
    {windows = windows},
    nil,
    script_time_nowMs
  )
  if ____error ~= nil then
    return ____error
  end
  local ____all = hours for ____i = 1, #____all do local ____value = ____all[____i]
    local hour = ____value[1]
    local cost = ____value[2]
    local at = math.floor((hour * HOUR_MS + HOUR_MS / 2 + shiftMs) / HOUR_MS)
    local failed = rare_files.late_costs.recordLate(
      KEYS[2],
      at,
      cost,
      math.floor(script_time_nowMs / HOUR_MS)
    )
    if failed then
      return failed
    end
  end
  local reply = {}
  local ____all = added for ____i = 1, #____all do local isAdded = ____all[____i]
    reply[#reply + 1] = isAdded and 1 or 0
  end
  return reply
end
end
return reconcile_script_main()
end
