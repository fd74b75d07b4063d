-- Reads the bans of accounts, and whether all else of each can be read.
--
-- KEYS  the hashes of the accounts, their fields as in windows.lua, which precedes this script
-- reply for each the fields b, B, w and W, each empty or nil if there is none, and 1 if decisions can read the whole account (else 0).
--       An empty b if the name holds something else than a hash
local function isWhole(values, ends)
  if not readBans(values) or values[7] and not topUpsIn(values[7]) then return false end
  for index = 1, #USED do
    local used = values[7 + index]
    if used or ends[index] then
      -- Read as the kind that it was counted as.
      local per = used and not tonumber(used) and (string.byte(used) or 0) - 128 or 0
      if not readWindow({ index = index, per = per, latest = MOST }, used, ends[index], 0) then return false end
    end
  end
  return true
end

local replies = {}
for i, name in ipairs(KEYS) do
  local values = redis.pcall('HMGET', name, 'x', 'X', 'b', 'B', 'w', 'W', 't', unpack(USED))
  if not values.err then
    local ban = { values[3], values[4], values[5], values[6] }
    ban[5] = isWhole(values, redis.call('HMGET', name, unpack(ENDS))) and 1 or 0
    replies[i] = ban
  elseif string.find(values.err, 'WRONGTYPE', 1, true) then
    replies[i] = { '', '', '', '', 0 }
  else
    return values
  end
end
return replies
