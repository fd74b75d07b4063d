-- Takes back what was added to the limit of one window (the twin of `undone` in src/engine/changes.ts). top-ups.lua
-- precedes it.
--
-- ARGV[4] the window's index, 1 second … 6 month
-- ARGV[5] the id of the top-up; empty: all that are in force
-- reply   'made', the end of what was taken back, how much that was, and how much stays; 'repeated' and that end; 'reused';
--         'none' if no such top-up is in force; 'foreign' if the hash holds foreign values
local index, id = tonumber(ARGV[4]), ARGV[5]

local values = fieldsOf('t', 'T')
local sums = values and sumsIn(values[1])
if not sums then return { 'foreign' } end
local sum = sumOf(sums, index)
local taken, left = nil, {}
for _, note in ipairs(notesIn(values[2])) do
  if note.index == index and (id == '' or note.id == id) then
    taken = (taken or 0) + note.amount
  else
    left[#left + 1] = note
  end
end
if not sum or (id ~= '' and not taken) then
  if not lastEnd then return { 'none' } end
  remember(lastEnd)
  return { 'repeated', lastEnd }
end
taken = id == '' and sum.amount or min(taken, sum.amount)
sum.amount = sum.amount - taken
local kept = {}
for _, other in ipairs(sums) do
  if other.amount > 0 then kept[#kept + 1] = other end
end
keepTopUps(kept, left)
remember(sum.ends)
return { 'made', sum.ends, taken, sum.amount }
