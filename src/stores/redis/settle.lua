-- Settles what one request has charged in a unit of its own: gives back what it did not use, or adds what it used besides. The
-- twin of src/engine/settle.ts.
--
-- windows.lua and history.lua precede it.
--
-- KEYS[1] the hash of the account, its fields as in windows.lua
-- KEYS[2] the history of the unit, and further ones behind it; then, if ARGV[3] is 1, the history of requests behind the account and
--         behind each of the others (`historyBehind`). Where that is gone, the key or customer was deleted, and nothing is settled
-- ARGV    what to add, negative to give back; the hour since 1970 in which the request was counted; 1 if the request certainly is
--         in the histories (else 0); then for each window its code
--         and its instants as in decide.lua, and behind the code where the request was counted (`placeOf`); the gateway's clock
--         as in history.lua
-- reply   0; or a string if the hash has foreign values, or the instants of a calendar window do not include now: then nothing
--         was done
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local delta, hour = tonumber(ARGV[1]), tonumber(ARGV[2])
local arguments = readGatewayClock(time[1])
local others = ARGV[3] == '1' and #KEYS / 2 or #KEYS
local function isDeleted(at)
  return ARGV[3] == '1' and redis.pcall('GETRANGE', KEYS[others + at], 0, 0) == ''
end
local changes, last = {}, 0
local at = 4
while at <= arguments do
  local code, place = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local index, per, instants = code % 10, floor(code / 10) % 100, floor(code / 1000)
  local latest = instants == 0 and now + LENGTHS[index] or 0
  for i = at + 3, at + 1 + instants do
    local instant = tonumber(ARGV[i])
    if latest == 0 and now >= tonumber(ARGV[at + 2]) and now < instant then latest = instant end
  end
  if latest == 0 then return 'CLOCK' end
  at = at + 2 + instants
  local values = redis.pcall('HMGET', KEYS[1], USED[index], ENDS[index])
  if values.err then
    if string.find(values.err, 'WRONGTYPE', 1, true) then return 'WRONGTYPE' end
    return values
  end
  local window = { index = index, per = per, latest = latest }
  if readWindow(window, values[1], values[2], now) == nil or window.used > MOST - max(delta, 0) then return 'FOREIGN' end
  if delta > 0 then
    countIn(window, now, delta)
    putWindow(changes, window)
  elseif not window.isConverted and giveBack(window, place, -delta) then
    putWindow(changes, window)
  end
  last = max(last, window.ends)
end
if #changes > 0 and not isDeleted(1) then
  local written = redis.pcall('HSET', KEYS[1], unpack(changes))
  if type(written) == 'table' and written.err then return written end
  redis.call('PEXPIREAT', KEYS[1], max(last, now + redis.call('PTTL', KEYS[1])))
end
for i = 2, others do
  local err = not isDeleted(i) and history().broughtLate(KEYS[i], hour, delta, floor(now / 3600000))
  if err then return err end
end
return 0
