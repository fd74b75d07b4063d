-- How the counts of windows are kept in the hash of one consumer, and which part of them still counts, for the changes of operators
-- and for what is reconciled: the twin of src/engine/counting.ts, as far as they need it. Decisions and settlements have
-- src/stores/redis/shell, which reads and writes the same fields.
--
-- Fields of the hash, with short names because there may be a million hashes. Times are Unix milliseconds.
--   s m h d k n   what was counted in the window (second, minute, hour, day, week, month): a number, or for a sliding window
--                 the counts of its slices, packed: a byte 128 + slices per length; a byte with the number of the first
--                 slice (0 to 30) + 32 * (bytes per count - 1); then the counts, the oldest first
--   S M H D K N   the end of the window; of a sliding one the beginning of slice 0
--   t             top-ups, three numbers each: window, amount, end
--   T             the same one by one, for operators (shell/top-up-fields.ts); decisions do not read it
--   x X           strikes, their end
--   b B w W       ban number, its end, its window, and the budget of that if it is not the account's own
--   l             what gateways have borrowed, three numbers each: id, units, end (src/engine/leasing.ts)
--   f             requests in flight, three words for each process: its name, how many it has, until when that holds
--
-- A window is a table: its `index`, its slices `per` length (0: it does not slide), `latest`, the end of one that opens now
-- (not used by sliding ones), `used`, `ends`, when nothing of it counts any more (0: it is not open), and, if it was counted
-- as a sliding window, its `slices`: `per`, `first`, `starts` and `counts`. `isConverted`: it was counted in other slices, or is
-- not a sliding window any more.
local USED = { 's', 'm', 'h', 'd', 'k', 'n' }
local ENDS = { 'S', 'M', 'H', 'D', 'K', 'N' }
-- Of windows that may slide.
local LENGTHS = { 1000, 60000, 3600000, 86400000, 604800000 }
local MOST = 9007199254740992
-- How long a request counts as in flight after its process has last reported it.
local TICKET_MS = 10000
-- Of src/engine/leasing.ts: the longest lease; how long after its end its return may be on the way, and is accepted; and how much later
-- than one that begins now a lease may end, after the clock was set back.
local LEASE_MS, RETURN_WITHIN_MS, KNOWN_FOR_MS, MAX_AHEAD_MS = 250, 100, 2000, 5000
-- How often what is lent of an account is called back at most, and the most leases of one account.
local RECALL_EVERY_MS, MAX_LEASES = 20, 64
-- Slices per length, as in plans.yaml. One more is kept: the oldest leaves when the next one has ended.
local MAX_SLICES = 30
local floor, max, min = math.floor, math.max, math.min

-- What only sliding windows need. Redis runs the whole script at each call, and makes these functions only if it meets such a
-- window: all of them for each call would cost a tenth of a decision.
local function makeSliding()
  local sliding = {}

  -- When slice `index` begins, after slice 0.
  local function boundary(index, length, per)
    return floor(index * length / per)
  end

  -- When slice `index` leaves.
  function sliding.leavesAt(window, index)
    local slices, length = window.slices, LENGTHS[window.index]
    return slices.starts + length + boundary(index + 1, length, slices.per)
  end

  -- Gives a window its slices.
  local function keep(window, slices)
    window.slices, window.used = slices, 0
    for _, count in ipairs(slices.counts) do window.used = window.used + count end
    window.ends = sliding.leavesAt(window, slices.first + #slices.counts - 1)
  end

  local function close(window)
    window.slices, window.used, window.ends = nil, 0, 0
  end

  local function keepOne(window, now, used)
    keep(window, { per = window.per, first = 0, starts = now, counts = { used } })
  end

  -- False if the values are foreign.
  function sliding.read(window, text, starts)
    local head, second = string.byte(text, 1, 2)
    if second == nil or head <= 128 or starts == nil or not LENGTHS[window.index] then return false end
    -- Another program may have written any number of bytes, and `unpack` fails for many.
    if #text > 2 + 8 * (MAX_SLICES + 1) then return false end
    local width = floor(second / 32) + 1
    local n = (#text - 2) / width
    local slices = { per = head - 128, first = second % 32, starts = starts }
    if slices.per > MAX_SLICES or slices.first >= slices.per then return false end
    if n < 1 or n > slices.per + 1 or n ~= floor(n) then return false end
    slices.counts = { struct.unpack('>' .. string.rep('I' .. width, n), text, 3) }
    slices.counts[n + 1] = nil
    for _, count in ipairs(slices.counts) do
      if count > MOST then return false end
    end
    keep(window, slices)
    return true
  end

  function sliding.text(slices)
    local width, most = 1, 0
    for _, count in ipairs(slices.counts) do most = max(most, count) end
    while most >= 256 ^ width do width = width + 1 end
    local head = string.char(128 + slices.per, slices.first + 32 * (width - 1))
    return head .. struct.pack('>' .. string.rep('I' .. width, #slices.counts), unpack(slices.counts))
  end

  -- Drops the first `gone` slices.
  local function dropFirst(window, gone)
    local slices, length = window.slices, LENGTHS[window.index]
    local first = (slices.first + gone) % slices.per
    slices.starts = slices.starts + (slices.first + gone - first) / slices.per * length
    slices.first = first
    local left = {}
    for i = gone + 1, #slices.counts do left[#left + 1] = slices.counts[i] end
    slices.counts = left
    keep(window, slices)
  end

  -- Drops the slices that have left. Returns by how much the others moved back.
  local function drop(window, now)
    local slices, length = window.slices, LENGTHS[window.index]
    local n = #slices.counts
    local back = max(slices.starts + boundary(slices.first + n - 1, length, slices.per) - now, 0)
    slices.starts = slices.starts - back
    local gone = 0
    while gone < n and (slices.counts[gone + 1] == 0 or sliding.leavesAt(window, slices.first + gone) <= now) do
      gone = gone + 1
    end
    if gone == n then
      close(window)
    elseif gone > 0 then
      dropFirst(window, gone)
    elseif back > 0 then
      window.ends = window.ends - back
    end
    window.isChanged = window.isChanged or gone > 0 or back > 0
    return back
  end

  -- As `present` below, of a window that slides or was counted as one that does.
  function sliding.present(window, now)
    if window.slices == nil then
      window.isChanged = window.ends > 0
      if now >= window.ends then
        close(window)
        return 0
      end
      local back = max(window.ends - now - LENGTHS[window.index], 0)
      keepOne(window, now, window.used)
      return back
    end
    local back = drop(window, now)
    if window.slices == nil or window.slices.per == window.per then return back end
    window.isConverted = true
    if window.per > 0 then
      keepOne(window, now, window.used)
    else
      window.ends = min(sliding.leavesAt(window, window.slices.first), window.latest)
      window.slices = nil
    end
    return back
  end

  function sliding.count(window, now, spent)
    local slices = window.slices
    if slices == nil then return keepOne(window, now, spent) end
    -- The last slice that has begun.
    local last = math.ceil((now - slices.starts + 1) * slices.per / LENGTHS[window.index]) - 1
    local at = last - slices.first + 1
    for i = #slices.counts + 1, at do slices.counts[i] = 0 end
    slices.counts[at] = slices.counts[at] + spent
    keep(window, slices)
  end

  return sliding
end

local made
local function sliding()
  made = made or makeSliding()
  return made
end

-- Reads a window from its two fields and leaves of it what still counts. Returns the least amount by which the clock was set
-- back, or nil if the values are foreign.
local function readWindow(window, usedText, endsText, now)
  local used, ends = tonumber(usedText or 0), tonumber(endsText or 0)
  if ends == nil or ends < 0 or ends > MOST or ends ~= floor(ends) then return nil end
  window.slices, window.isChanged, window.isConverted = nil, false, false
  if used == nil then
    if not sliding().read(window, usedText, ends) then return nil end
    return sliding().present(window, now)
  end
  if used < 0 or used > MOST or used ~= floor(used) then return nil end
  local back = 0
  if window.per > 0 then
    window.used, window.ends = used, ends
    return sliding().present(window, now)
  elseif now >= ends then
    if ends > 0 then used, ends, window.isChanged = 0, 0, true end
  elseif ends > window.latest then
    back = ends - window.latest
    ends, window.isChanged = window.latest, true
  end
  window.used, window.ends = used, ends
  return back
end

-- Adds what was spent to a window.
local function countIn(window, now, spent)
  window.isChanged = true
  if window.per > 0 then return sliding().count(window, now, spent) end
  window.used = window.used + spent
  if window.ends == 0 then window.ends = window.latest end
end

-- Makes numbers of the strikes, their end, the ban, its end and its window, the first five of `values`. False if they are foreign.
local function readBans(values)
  for i = 1, 5 do
    local number = tonumber(values[i] or 0)
    if number == nil or number < 0 or number > MOST or number ~= floor(number) then return false end
    values[i] = number
  end
  return values[5] <= #USED and (values[3] == 0 or values[5] > 0)
end

-- The numbers of the top-ups, three for each; nil if the text is foreign.
local function topUpsIn(text)
  if #text > 50 * #USED then return nil end
  local numbers = {}
  for word in string.gmatch(text, '%S+') do
    local number = tonumber(word)
    if number == nil or not (number >= 1 and number <= MOST) or number ~= floor(number) then return nil end
    numbers[#numbers + 1] = number
  end
  if #numbers % 3 > 0 then return nil end
  for i = 1, #numbers, 3 do
    if not USED[numbers[i]] then return nil end
    for j = 1, i - 3, 3 do
      if numbers[j] == numbers[i] then return nil end
    end
  end
  return numbers
end

-- The leases that are still known, in a text of the field `l`. None, if it is foreign.
local function leasesIn(text, now)
  local leases, numbers = {}, {}
  if #text > 64 * MAX_LEASES then return leases end
  for word in string.gmatch(text, '%S+') do
    local number = tonumber(word)
    if number == nil or not (number >= -MOST and number <= MOST) or number ~= floor(number) then return {} end
    numbers[#numbers + 1] = number
  end
  for i = 3, #numbers, 3 do
    local ends = numbers[i]
    if now < ends + KNOWN_FOR_MS and ends <= now + LEASE_MS + MAX_AHEAD_MS then
      leases[#leases + 1] = { id = numbers[i - 2], units = numbers[i - 1], ends = min(ends, now + LEASE_MS) }
    end
  end
  return leases
end

-- The text of leases.
local function leasesText(leases)
  local words = {}
  for i, lease in ipairs(leases) do words[i] = string.format('%d %d %d', lease.id, lease.units, lease.ends) end
  return table.concat(words, ' ')
end

-- How many units a request may wait for that the windows have counted, and for how long it may wait for any. Negative ones are of
-- windows of other accounts.
local function unreturned(leases, now)
  local units, longest = 0, 0
  for _, lease in ipairs(leases) do
    if lease.units ~= 0 and now < lease.ends + RETURN_WITHIN_MS then
      units = units + max(lease.units, 0)
      longest = max(longest, lease.ends + RETURN_WITHIN_MS - now)
    end
  end
  return units, longest
end

-- Whether what is lent was called back a moment ago.
local function isCalledBack(leases, now)
  for _, lease in ipairs(leases) do
    if lease.units == 0 and lease.ends > now + LEASE_MS - RECALL_EVERY_MS then return true end
  end
  return false
end

-- The leases with a notice, until the end of which nothing is lent, because somebody waits for what is lent already.
local function withNotice(leases, now)
  local noticed = {}
  for _, lease in ipairs(leases) do
    if lease.units ~= 0 then noticed[#noticed + 1] = lease end
  end
  noticed[#noticed + 1] = { id = 0, units = 0, ends = now + LEASE_MS }
  return noticed
end

-- Appends the two fields of a window and their values to `changes`.
local function putWindow(changes, window)
  local n, slices = #changes, window.slices
  changes[n + 1] = USED[window.index]
  changes[n + 2] = slices and sliding().text(slices) or window.used
  changes[n + 3] = ENDS[window.index]
  changes[n + 4] = slices and slices.starts or window.ends
end
