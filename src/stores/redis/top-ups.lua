-- What top-up.lua and undo-top-up.lua share: the top-ups of one account. once.lua precedes this script.
--
-- Decisions read the field `t` alone: for each window what is added to it in total, and until when. The field `T` has the top-ups
-- one by one, as `TopUpNote` in src/model/account.ts describes them, seven words each: id, window, amount, end, 1 if an operator
-- named the end (else 0), when it was made, and `=` with the reason, percent-encoded. Earlier versions neither read nor write `T`.

-- The sums in force; nil if the text is foreign.
local function sumsIn(text)
  local numbers, sums = topUpsIn(text or ''), {}
  if not numbers then return nil end
  for i = 1, #numbers, 3 do
    if now < numbers[i + 2] then
      sums[#sums + 1] = { index = numbers[i], amount = numbers[i + 1], ends = numbers[i + 2] }
    end
  end
  return sums
end

-- The sum of a window; nil if none is in force.
local function sumOf(sums, index)
  for _, sum in ipairs(sums) do
    if sum.index == index then return sum end
  end
end

-- The top-ups in force. What does not look like one is left out.
local function notesIn(text)
  local notes = {}
  local form = '(%S+) ([1-6]) (%d+) (%d+) ([01]) (%d+) (=%S*)'
  for id, index, amount, ends, own, at, reason in string.gmatch(text or '', form) do
    if now < tonumber(ends) then
      notes[#notes + 1] = {
        id = id, index = tonumber(index), amount = tonumber(amount), ends = tonumber(ends), own = own, at = at, reason = reason,
      }
    end
  end
  return notes
end

-- Keeps a text in a field, or drops the field if there is nothing to keep.
local function keepWords(field, words)
  if #words == 0 then
    redis.call('HDEL', KEYS[1], field)
  else
    redis.call('HSET', KEYS[1], field, table.concat(words, ' '))
  end
end

local function keepTopUps(sums, notes)
  local words = {}
  for i, sum in ipairs(sums) do words[i] = string.format('%d %d %d', sum.index, sum.amount, sum.ends) end
  keepWords('t', words)
  words = {}
  for i, note in ipairs(notes) do
    local numbers = string.format('%d %d %d', note.index, note.amount, note.ends)
    words[i] = table.concat({ note.id, numbers, note.own, note.at, note.reason }, ' ')
  end
  keepWords('T', words)
end
