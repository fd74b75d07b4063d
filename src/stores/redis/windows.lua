-- How the counts of windows are kept in the hash of one consumer, and what of them still counts: the twin of
-- src/admit/windows.ts. The scripts that follow it (ledger.ts) share these functions.
--
-- Fields of the hash, with short names because there may be a million hashes. Times are Unix milliseconds.
--   s m h d k n   what was counted in the window (second, minute, hour, day, week, month): a number, or for a sliding window
--                 the counts of its slices, packed: a byte 128 + slices per length; a byte with the number of the first
--                 slice (0 to 30) + 32 * (bytes per count - 1); then the counts, the oldest first
--   S M H D K N   the end of the window; of a sliding one the beginning of slice 0
--   t             top-ups, three numbers each: window, amount, end
--   x X           strikes, their end
--   b B w         ban number, its end, its window
local USED = { 's', 'm', 'h', 'd', 'k', 'n' }
local ENDS = { 'S', 'M', 'H', 'D', 'K', 'N' }
-- Of windows that may slide.
local LENGTHS = { 1000, 60000, 3600000, 86400000, 604800000 }
local MOST = 9007199254740992

local function isWhole(number)
  return number ~= nil and number >= 0 and number <= MOST and number == math.floor(number)
end

-- When slice `index` begins, after slice 0.
local function boundary(index, length, per)
  return math.floor(index * length / per)
end

-- When slice `index` of a count leaves.
local function leavesAt(count, index, length)
  return count.starts + length + boundary(index + 1, length, count.per)
end

local function unpackSlices(text, starts)
  local head = string.byte(text, 1) or 0
  local second = string.byte(text, 2) or 0
  local width = math.floor(second / 32) + 1
  local n = (#text - 2) / width
  if head < 128 or n < 1 or n ~= math.floor(n) or not isWhole(starts) then return nil end
  local count = { per = head - 128, first = second % 32, starts = starts, counts = {}, used = 0 }
  if count.per < 1 or count.first >= count.per then return nil end
  local values = { struct.unpack('>' .. string.rep('I' .. width, n), string.sub(text, 3)) }
  for i = 1, n do
    if not isWhole(values[i]) then return nil end
    count.counts[i] = values[i]
    count.used = count.used + values[i]
  end
  return count
end

local function packSlices(count)
  local width, most = 1, 0
  for _, slice in ipairs(count.counts) do most = math.max(most, slice) end
  while most >= 256 ^ width do width = width + 1 end
  local head = string.char(128 + count.per, count.first + 32 * (width - 1))
  return head .. struct.pack('>' .. string.rep('I' .. width, #count.counts), unpack(count.counts))
end

-- A count from its two fields: its `used`, and its `ends`, or for a sliding one `per`, `first`, `starts` and `counts`.
-- `used` is 0 if there is none. Nil if the values are foreign.
local function readCount(index, used, ends)
  local number, at = tonumber(used or 0), tonumber(ends or 0)
  if isWhole(number) and isWhole(at) then return { used = number, ends = at } end
  if number ~= nil or at == nil then return nil end
  return LENGTHS[index] and unpackSlices(used, at)
end

local function putCount(put, index, count)
  if count.counts then
    put(USED[index], packSlices(count))
    put(ENDS[index], count.starts)
  else
    put(USED[index], count.used)
    put(ENDS[index], count.ends)
  end
end

local function oneSlice(per, now, used)
  return { per = per, first = 0, starts = now, counts = { used }, used = used }
end

local NONE = { used = 0, ends = 0 }

-- What of some slices still counts, the amount by which they moved back, and whether they have changed.
local function presentSlices(count, index, now)
  local length, slices = LENGTHS[index], #count.counts
  local back = math.max(count.starts + boundary(count.first + slices - 1, length, count.per) - now, 0)
  count.starts = count.starts - back
  local gone = 0
  while gone < slices and (count.counts[gone + 1] == 0 or leavesAt(count, count.first + gone, length) <= now) do
    gone = gone + 1
  end
  if gone == slices then return NONE, back, true end
  if gone > 0 then
    local first = (count.first + gone) % count.per
    count.starts = count.starts + (count.first + gone - first) / count.per * length
    count.first = first
    local left = {}
    count.used = 0
    for i = gone + 1, slices do
      left[#left + 1] = count.counts[i]
      count.used = count.used + count.counts[i]
    end
    count.counts = left
  end
  return count, back, gone > 0 or back > 0
end

-- What of a count still counts under a window of `per` slices (0: not sliding; then one that opens now ends at `latest`), the
-- amount by which the clock was set back, and whether the count has changed.
local function presentCount(count, index, per, latest, now)
  if per > 0 then
    if count.counts == nil then
      if count.ends <= now then return NONE, 0, count.ends > 0 end
      return oneSlice(per, now, count.used), math.max(count.ends - now - LENGTHS[index], 0), true
    end
    local present, back, isChanged = presentSlices(count, index, now)
    if present == NONE or present.per == per then return present, back, isChanged end
    return oneSlice(per, now, present.used), back, true
  end
  if count.counts == nil then
    if count.ends <= now then return NONE, 0, count.ends > 0 end
    local back = math.max(count.ends - latest, 0)
    if back > 0 then return { used = count.used, ends = latest }, back, true end
    return count, 0, false
  end
  local sliced, back = presentSlices(count, index, now)
  if sliced == NONE then return NONE, back, true end
  local ends = math.min(leavesAt(sliced, sliced.first, LENGTHS[index]), latest)
  return { used = sliced.used, ends = ends }, back, true
end

-- The count after `spent` more.
local function countIn(count, index, per, latest, now, spent)
  if per == 0 then
    return { used = count.used + spent, ends = count.ends > 0 and count.ends or latest }
  end
  if count.counts == nil then return oneSlice(per, now, spent) end
  -- The last slice that has begun.
  local slice = math.ceil((now - count.starts + 1) * per / LENGTHS[index]) - 1
  for i = #count.counts + 1, slice - count.first + 1 do count.counts[i] = 0 end
  local i = slice - count.first + 1
  count.counts[i] = count.counts[i] + spent
  count.used = count.used + spent
  return count
end

-- When nothing of a count counts any more.
local function endOf(count, index)
  if count.counts == nil then return count.ends end
  return leavesAt(count, count.first + #count.counts - 1, LENGTHS[index])
end
