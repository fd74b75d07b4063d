-- Made by `npm run engine:lua` of src/engine and src/stores/redis/shell, which say what it does: change those.
-- The line of TypeScript for each line is in refusals.lua.map.
local rare_files = {}
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
setmetatable(rare_files, {__index = function(_, name)
if name == "history_hours" then
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
end
end})
local function refusals_script()
local refusals_script_main
do
--- The script.
function refusals_script_main()
  history_costs_readGatewayClock(script_time_seconds)
  rare_files.stored_history.recordRefused(
    KEYS[1],
    math.floor(script_time_seconds / 3600),
    tonumber(ARGV[1]),
    tonumber(ARGV[2])
  )
  return 0
end
end
return refusals_script_main()
end
local function refused_now_script()
local refused_now_script_main
do
local removeForeign
function removeForeign(command, key)
  local size = redis.pcall(command, key)
  if type(size) ~= "number" and string.find(size.err, "WRONGTYPE", 1, true) ~= nil then
    redis.call("DEL", key)
  end
end
--- The script.
function refused_now_script_main()
  local ends = KEYS[1]
  local rests = KEYS[2]
  removeForeign("ZCARD", ends)
  removeForeign("HLEN", rests)
  do
    local i = 1
    while i < #ARGV do
      redis.call("ZADD", ends, ARGV[i + 1 + 1], ARGV[i + 1])
      redis.call("HSET", rests, ARGV[i + 1], ARGV[i + 2 + 1])
      i = i + 3
    end
  end
  local surplus = redis.call("ZCARD", ends) - tonumber(ARGV[1])
  local soonest = redis.call(
    "ZRANGE",
    ends,
    0,
    math.max(surplus, 1000),
    "WITHSCORES"
  )
  do
    local i = 0
    while i < #soonest do
      if i >= 2 * surplus and tonumber(soonest[i + 1 + 1]) > script_time_nowMs then
        break
      end
      redis.call("ZREM", ends, soonest[i + 1])
      redis.call("HDEL", rests, soonest[i + 1])
      i = i + 2
    end
  end
  local lastMs = redis.call(
    "ZRANGE",
    ends,
    -1,
    -1,
    "WITHSCORES"
  )[2]
  if lastMs ~= nil then
    redis.call("PEXPIREAT", ends, lastMs)
    redis.call("PEXPIREAT", rests, lastMs)
  end
  return 0
end
end
return refused_now_script_main()
end
