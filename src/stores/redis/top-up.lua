-- Adds to the limit of one window until that window ends, or until the operator's own end (the twin of `withTopUp` in
-- src/engine/changes.ts). top-ups.lua precedes it.
--
-- ARGV[4] the window's index, 1 second … 6 month
-- ARGV[5] its limit
-- ARGV[6] its slices per length (0: it does not slide)
-- ARGV[7] what to add
-- ARGV[8] the largest limit that there is
-- ARGV[9] the operator's own end (0: that of the window)
-- ARGV[10] how many top-ups of a window are kept one by one
-- ARGV[11] the id of this top-up
-- ARGV[12] `=` and the reason, percent-encoded
-- ARGV[13] and the following, of a calendar window: the instants at which a few periods begin, and the end of the last
-- reply   'made', the end of this top-up, what is added to the window in total, and until when; 'repeated' and the end of
--         the top-up that was made under this id; 'reused'; 'outside' and now, if no period contains now; 'too_much' and
--         what was added before; 'past' if its own end has passed; 'other_end', with what is in force and until when, if that ends at
--         another time; 'foreign' if the hash holds foreign values
local index, limit, per = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local amount, most, ownEnd = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])

if lastEnd and now >= lastEnd then
  remember(lastEnd)
  return { 'repeated', lastEnd }
end
if ownEnd > 0 and now >= ownEnd then return { 'past' } end
local latest = lastEnd
if not latest and #ARGV < 13 then latest = now + LENGTHS[index] end
if not latest and now >= tonumber(ARGV[13]) then
  for i = 14, #ARGV do
    if now < tonumber(ARGV[i]) then
      latest = tonumber(ARGV[i])
      break
    end
  end
end
if not latest then return { 'outside', now } end

local values = fieldsOf('t', 'T', USED[index], ENDS[index])
local window = { index = index, per = per, latest = latest }
if not values or not readWindow(window, values[3], values[4], now) then return { 'foreign' } end
local sums, notes = sumsIn(values[1]), notesIn(values[2])
if not sums then return { 'foreign' } end
local sum = sumOf(sums, index)
if limit + (sum and sum.amount or 0) + amount > most then return { 'too_much', sum and sum.amount or 0 } end

local ends, isBound, ofWindow = latest, ownEnd > 0, {}
if ownEnd > 0 then
  ends = ownEnd
elseif per == 0 and window.ends > 0 then
  ends = window.ends
end
for i, note in ipairs(notes) do
  if note.index == index then
    ofWindow[#ofWindow + 1] = i
    isBound = isBound or note.own == '1'
  end
end
if sum and isBound and sum.ends ~= ends then return { 'other_end', sum.amount, sum.ends } end

if per == 0 and ownEnd == 0 then redis.call('HSET', KEYS[1], USED[index], window.used, ENDS[index], ends) end
if not sum then
  sum = { index = index, amount = 0, ends = 0 }
  sums[#sums + 1] = sum
end
sum.amount, sum.ends = sum.amount + amount, max(sum.ends, ends)
for _, i in ipairs(ofWindow) do notes[i].ends = sum.ends end
if #ofWindow >= tonumber(ARGV[10]) then table.remove(notes, ofWindow[1]) end
notes[#notes + 1] = {
  id = ARGV[11], index = index, amount = amount, ends = sum.ends, own = isBound and '1' or '0',
  at = string.format('%d', now), reason = ARGV[12],
}
keepTopUps(sums, notes)
redis.call('PEXPIREAT', KEYS[1], max(sum.ends, now + redis.call('PTTL', KEYS[1])))
remember(ends)
return { 'made', ends, sum.amount, sum.ends }
