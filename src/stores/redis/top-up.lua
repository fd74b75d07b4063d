-- Adds to the limit of one window until that window ends (the twin of `toppedUp` in src/admit/account-changes.ts).
--
-- ARGV[4] the window's index, 1 second … 6 month
-- ARGV[5] its limit
-- ARGV[6] its slices per length (0: it does not slide)
-- ARGV[7] what to add
-- ARGV[8] the largest limit that there is
-- ARGV[9] and the following, of a calendar window: the instants at which a few periods begin, and the end of the last
-- reply   'made', the end of this top-up, what is added to the window in total, and until when; 'repeated' and the end of
--         the top-up that was made under this id; 'reused'; 'outside' and now, if no period contains now; 'too_much' and
--         what was added before; 'foreign' if the hash holds foreign values
local index, limit, per = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local amount, most = tonumber(ARGV[7]), tonumber(ARGV[8])

if lastEnd and now >= lastEnd then
  remember(lastEnd)
  return { 'repeated', lastEnd }
end
local latest = lastEnd
if not latest and #ARGV < 9 then latest = now + LENGTHS[index] end
if not latest and now >= tonumber(ARGV[9]) then
  for i = 10, #ARGV do
    if now < tonumber(ARGV[i]) then
      latest = tonumber(ARGV[i])
      break
    end
  end
end
if not latest then return { 'outside', now } end

local values = fieldsOf('t', USED[index], ENDS[index])
local window = { index = index, per = per, latest = latest }
if not values or not readWindow(window, values[2], values[3], now) then return { 'foreign' } end

local others, total, untilTime = {}, 0, 0
local topUps = topUpsIn(values[1] or '')
if not topUps then return { 'foreign' } end
for i = 1, #topUps, 3 do
  local other, added, ends = topUps[i], topUps[i + 1], topUps[i + 2]
  if now < ends then
    if other == index then
      total, untilTime = added, ends
    else
      others[#others + 1] = string.format('%d %d %d', other, added, ends)
    end
  end
end
if limit + total + amount > most then return { 'too_much', total } end

local ends = latest
if per == 0 then
  if window.ends > 0 then ends = window.ends end
  redis.call('HSET', KEYS[1], USED[index], window.used, ENDS[index], ends)
end
total, untilTime = total + amount, math.max(untilTime, ends)
others[#others + 1] = string.format('%d %d %d', index, total, untilTime)
redis.call('HSET', KEYS[1], 't', table.concat(others, ' '))
redis.call('PEXPIREAT', KEYS[1], math.max(untilTime, now + redis.call('PTTL', KEYS[1])))
remember(ends)
return { 'made', ends, total, untilTime }
