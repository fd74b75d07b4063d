-- Sets what was counted in some windows to nothing, and clears the strikes (the twin of `resetUsage` in
-- src/engine/changes.ts).
--
-- What it cannot read, because another program has written it, is removed and counts as nothing: any window, strikes, top-ups and a
-- ban. If the name holds no hash at all, it is removed.
--
-- ARGV[4] and the following: the indexes of the windows, 1 second … 6 month
-- reply   'made', the end of the last count that was taken away, the strikes, and for each window what had been counted;
--         'repeated' and the end of the reset that was made under this id; 'reused'; 'lent' and for how long, if gateways may still use or return units: then nothing was reset, and nothing is
--         lent for a moment
--
-- If it is repeated after a failover, a fixed or calendar window that ends later than those that were reset stays, and so
-- does a slice that leaves later.
local fields = { 'x', 'X' }
local lent = redis.pcall('HGET', KEYS[1], 'l')
if type(lent) == 'string' and not lastEnd then
  local leases = leasesIn(lent, now)
  local _, longest = unreturned(leases, now)
  if longest > 0 then
    if not isCalledBack(leases, now) then
      redis.call('HSET', KEYS[1], 'l', leasesText(withNotice(leases, now)))
      redis.pcall('PUBLISH', RECALLS, KEYS[1])
    end
    return { 'lent', longest }
  end
end
local indexes, named = {}, {}
for i = 4, #ARGV do
  indexes[#indexes + 1] = tonumber(ARGV[i])
  named[tonumber(ARGV[i])] = true
end
for index = 1, #USED do
  if not named[index] then indexes[#indexes + 1] = index end
end
for _, index in ipairs(indexes) do
  fields[#fields + 1] = USED[index]
  fields[#fields + 1] = ENDS[index]
end
local values = fieldsOf(unpack(fields))
if not values then
  redis.call('DEL', KEYS[1])
  values = {}
end
local struck = { values[1], values[2] }
local strikes, strikesEnd = 0, 0
if readBans(struck) then strikes, strikesEnd = struck[1], struck[2] end
local unreadable = {}

local windows, reply, upTo = {}, { 'made', now, now < strikesEnd and strikes or 0 }, now
for i, index in ipairs(indexes) do
  local used = values[2 * i + 1]
  -- Read as the kind that it was counted as.
  local per = used and not tonumber(used) and (string.byte(used) or 0) - 128 or 0
  local window = { index = index, per = per, latest = MOST }
  if not readWindow(window, used, values[2 * i + 2], now) then
    window.used, window.ends, window.slices = 0, 0, nil
    unreadable[#unreadable + 1] = USED[index]
    unreadable[#unreadable + 1] = ENDS[index]
  end
  if named[index] then
    windows[#windows + 1] = window
    reply[#reply + 1] = window.used
    upTo = max(upTo, window.ends)
  end
end

for _, window in ipairs(windows) do
  local names = { USED[window.index], ENDS[window.index] }
  local slices = window.slices
  if slices then
    for i = 1, #slices.counts do
      if not lastEnd or sliding().leavesAt(window, slices.first + i - 1) <= lastEnd then slices.counts[i] = 0 end
    end
    sliding().present(window, now)
    if window.slices then
      redis.call('HSET', KEYS[1], names[1], sliding().text(window.slices), names[2], window.slices.starts)
    else
      redis.call('HDEL', KEYS[1], unpack(names))
    end
  elseif window.ends > 0 and (not lastEnd or window.ends <= lastEnd) then
    redis.call('HSET', KEYS[1], names[1], 0)
  end
end
local rest = redis.call('HMGET', KEYS[1], 't', 'b', 'B', 'w')
if rest[1] and not topUpsIn(rest[1]) then
  unreadable[#unreadable + 1] = 't'
  unreadable[#unreadable + 1] = 'T'
end
if not readBans({ 0, 0, rest[2], rest[3], rest[4] }) then
  for _, field in ipairs({ 'b', 'B', 'w', 'W' }) do unreadable[#unreadable + 1] = field end
end
-- What is returned of a lease later was counted before this reset.
redis.call('HDEL', KEYS[1], 'x', 'X', 'l', unpack(unreadable))
reply[2] = lastEnd or upTo
remember(reply[2])
return reply
