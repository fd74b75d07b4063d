-- The history of one consumer, a string of 1,000 bytes: the twin of src/admit/history.ts, which describes it. The scripts
-- that follow it share these functions. A string that is not a history stays as it is.
-- These are made only if a call needs them.
--
-- The last argument of a call is the gateway's own clock, as @SECONDS. `historyMoves` is false if the store's clock differs
-- from it by more than an hour: one of them is wrong, and a history that followed it would lose up to 92 days. What is used
-- meanwhile is recorded only where the history has its hour already.
local historyMoves = true

-- The last history in which nothing was recorded because its key holds something else; nil if there is none.
local unrecorded

-- Returns how many arguments there are besides the clock.
local function readGatewayClock(storeSeconds)
  local seconds = string.match(ARGV[#ARGV] or '', '^@(%d+)$')
  if not seconds then return #ARGV end
  historyMoves = math.abs(tonumber(storeSeconds) - tonumber(seconds)) <= 3600
  return #ARGV - 1
end

-- Where the counts of hours and of days begin, and how many there are.
local HOURS, DAYS, HOURS_KEPT, DAYS_KEPT = 20, 260, 48, 92

-- Adds to an hour and its day. `0` is a text because Redis takes 1,500 instructions to make one of a number.
local function addTo(key, hour, cost)
  local ofHour = 8 * (HOURS + 5 * (hour % HOURS_KEPT))
  local ofDay = 8 * (DAYS + 5 * (math.floor(hour / 24) % DAYS_KEPT))
  return redis.pcall(
    'BITFIELD', key, 'OVERFLOW', 'SAT', 'INCRBY', 'u40', ofHour, cost, 'INCRBY', 'u40', ofDay, cost, 'GET', 'u32', '0'
  )
end

local recordAdmitted

local function makeHistory()
  local parts = {}
  local HISTORY_BYTES = 1000
  local LAST_HOUR_BYTES = 4
  local RECENT, HOUR_REFUSALS, DAY_REFUSALS = LAST_HOUR_BYTES, 720, 816

  -- The hour that was counted in last, with which a history begins.
  local function lastHourOf(text)
    return (struct.unpack('>I4', text))
  end

  local function newHistory(hour)
    return struct.pack('>I4', hour) .. string.rep('\0', HISTORY_BYTES - LAST_HOUR_BYTES)
  end

  -- A count in one byte: exact to 15, then three binary digits and an exponent.
  local function packedCount(count)
    local exponent, digits = 0, count
    while digits >= 16 do
      digits = math.floor(digits / 2)
      exponent = exponent + 1
    end
    return exponent == 0 and digits or 8 * exponent + digits
  end

  -- A text with some of its bytes replaced; `at` counts from 0.
  local function with(text, at, bytes)
    return string.sub(text, 1, at) .. bytes .. string.sub(text, at + #bytes + 1)
  end

  -- The refusals and the ban answers at `recent` in two bytes.
  local function refusalsOf(text, recent)
    local refused, banned = struct.unpack('>I4I4', text, recent + 1)
    return string.char(packedCount(refused), packedCount(banned))
  end

  -- Clears the hours or days from `first` to `last`.
  local function cleared(text, first, last, kept, costs, refusals)
    for one = math.max(first, last - kept + 1), last do
      text = with(text, costs + 5 * (one % kept), '\0\0\0\0\0')
      text = with(text, refusals + 2 * (one % kept), '\0\0')
    end
    return text
  end

  -- An error of Redis that the caller must report: not that the key holds something else, nor that the ACL of this user is from
  -- before there were histories, which the gateway warns of at startup.
  local function errorOf(key, reply)
    if type(reply) ~= 'table' or not reply.err then return nil end
    if string.find(reply.err, 'WRONGTYPE', 1, true) then unrecorded = key end
    for _, ignored in ipairs({ 'WRONGTYPE', 'NOPERM', "can't run this command" }) do
      if string.find(reply.err, ignored, 1, true) then return nil end
    end
    return reply
  end

  -- Makes `hour` the last hour of a history, unless it has a later one that is not 48 hours later. False if the key holds
  -- something else, or if histories do not move; the error if Redis refuses to write.
  local function reachHour(key, hour)
    local head = redis.pcall('GETRANGE', key, 0, LAST_HOUR_BYTES - 1)
    if type(head) == 'table' then
      errorOf(key, head)
      return false
    end
    -- What `admitted` leaves of a key that did not exist.
    if head == '\0\0\0\0' then head = '' end
    if #head == LAST_HOUR_BYTES then
      local last = lastHourOf(head)
      if last >= hour and last - hour < HOURS_KEPT then return true end
    end
    if not historyMoves then return false end
    local text
    if #head == 0 then
      text = newHistory(hour)
    else
      -- One byte more than a history has, and not all that another program may have written.
      text = redis.call('GETRANGE', key, 0, HISTORY_BYTES)
      if #text ~= HISTORY_BYTES then
        unrecorded = key
        return false
      end
      local last = lastHourOf(text)
      if last > hour then
        text = newHistory(hour)
      else
        local lastDay, day = math.floor(last / 24), math.floor(hour / 24)
        text = with(text, HOUR_REFUSALS + 2 * (last % HOURS_KEPT), refusalsOf(text, RECENT))
        text = cleared(text, last + 1, hour, HOURS_KEPT, HOURS, HOUR_REFUSALS)
        if day > lastDay then
          text = with(text, DAY_REFUSALS + 2 * (lastDay % DAYS_KEPT), refusalsOf(text, RECENT + 8))
          text = cleared(text, lastDay + 1, day, DAYS_KEPT, DAYS, DAY_REFUSALS)
        end
        text = with(text, RECENT, string.rep('\0', day > lastDay and 16 or 8))
        text = with(text, 0, struct.pack('>I4', hour))
      end
    end
    -- A whole string takes no more memory than its bytes; one that grows by SETRANGE takes twice as much.
    local written = redis.pcall('SET', key, text)
    if written.err then return errorOf(key, written) or false end
    redis.call('PEXPIREAT', key, (hour + 1 + DAYS_KEPT * 24) * 3600000)
    return true
  end

  -- Adds admitted cost where `recordAdmitted` has got `added` instead of the usual reply.
  function parts.recordAgain(key, hour, cost, added)
    if added.err then return errorOf(key, added) end
    addTo(key, hour, -cost)
    local reached = reachHour(key, hour)
    if reached ~= true then return reached or nil end
    return errorOf(key, addTo(key, hour, cost))
  end

  -- The hour that was counted in last; nil if there is no history.
  local function lastHourAt(key)
    local head = redis.pcall('GETRANGE', key, 0, LAST_HOUR_BYTES - 1)
    if type(head) == 'table' or #head < LAST_HOUR_BYTES then return nil end
    return lastHourOf(head)
  end

  -- Adds admitted cost that a gateway brings late, in `present`, the hour of the store. What is older than the hours that are
  -- kept counts for its day alone: it must not move the history back and so empty it. With a negative cost it gives back what
  -- was added before, if the history still has that hour.
  function parts.broughtLate(key, hour, cost, present)
    local last = cost < 0 and lastHourAt(key) or nil
    if hour > present - HOURS_KEPT then
      local at = math.min(hour, present)
      if cost < 0 and (last == nil or last < at or last - at >= HOURS_KEPT) then return nil end
      return recordAdmitted(key, at, cost)
    end
    if cost < 0 and last == nil then return nil end
    local reached = reachHour(key, present)
    if reached ~= true then return reached or nil end
    local day = math.floor(hour / 24)
    -- The history may have reached two more days than the store's clock.
    if day <= math.floor(present / 24) + 2 - DAYS_KEPT then return nil end
    local ofDay = 8 * (DAYS + 5 * (day % DAYS_KEPT))
    return errorOf(key, redis.pcall('BITFIELD', key, 'OVERFLOW', 'SAT', 'INCRBY', 'u40', ofDay, cost))
  end

  -- Adds refusals and ban answers.
  function parts.refused(key, hour, refused, banned)
    if reachHour(key, hour) ~= true then return end
    local args = { 'BITFIELD', key, 'OVERFLOW', 'SAT' }
    for i, count in ipairs({ refused, banned, refused, banned }) do
      for _, arg in ipairs({ 'INCRBY', 'u32', 8 * (RECENT + 4 * (i - 1)), count }) do args[#args + 1] = arg end
    end
    redis.pcall(unpack(args))
  end

  return parts
end

local madeHistory
local function history()
  madeHistory = madeHistory or makeHistory()
  return madeHistory
end

-- Adds admitted cost to an hour and its day. Nil, or the error if Redis refuses to write.
--
-- Nearly always the hour is the last one, so this is added before it is known: one call of Redis instead of two. Then the functions above
-- are not made, which takes 20,000 instructions.
function recordAdmitted(key, hour, cost)
  local added = addTo(key, hour, cost)
  if not added.err and added[3] == hour then return nil end
  return history().recordAgain(key, hour, cost, added)
end
