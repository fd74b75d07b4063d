-- What nginx does in the access phase: Bearer key, minute and day in one script call, three X-RateLimit fields. As lean
-- as it can be: a known key is looked up in the memory of nginx, and Redis sees one EVALSHA per request.
local redis = require 'nginx.redis'

local KNOWN_FOR_S = 60
local POOL = 512

-- KEYS: minute, day. ARGV: their limits. Replies whether it passes, then used and milliseconds left, of both.
local SCRIPT = [[
local used = redis.call('MGET', KEYS[1], KEYS[2])
local minute, day = tonumber(used[1] or 0), tonumber(used[2] or 0)
local passes = 0
if minute < tonumber(ARGV[1]) and day < tonumber(ARGV[2]) then
  passes = 1
  minute = redis.call('INCR', KEYS[1])
  if minute == 1 then redis.call('PEXPIRE', KEYS[1], 60000) end
  day = redis.call('INCR', KEYS[2])
  if day == 1 then redis.call('PEXPIRE', KEYS[2], 86400000) end
end
return { passes, minute, redis.call('PTTL', KEYS[1]), day, redis.call('PTTL', KEYS[2]) }
]]

local DIGEST = ngx.sha1_bin(SCRIPT):gsub('.', function(c) return string.format('%02x', c:byte()) end)

local function refuse(status, code, message)
  ngx.status = status
  ngx.header['Content-Type'] = 'application/json'
  ngx.print('{"code":"', code, '","message":"', message, '","status":', status, '}')
  return ngx.exit(status)
end

local function connected(port)
  local client = redis:new()
  client:set_timeout(1000)
  local ok, err = client:connect('127.0.0.1', port)
  if not ok then
    ngx.log(ngx.ERR, 'redis: ', err)
    return nil
  end
  return client
end

-- `MINUTE DAY`, or nil for a key that nobody has.
local function limits_of(client, key)
  local known = ngx.shared.keys:get(key)
  if known == nil then
    local found, err = client:get('k:' .. key)
    if err then return nil, err end
    known = found ~= ngx.null and found or false
    -- The unknown are not kept, or a flood of them would push out the good ones.
    if known then ngx.shared.keys:set(key, known, KNOWN_FOR_S) end
  end
  return known or nil
end

local function gate(port)
  local authorization = ngx.var.http_authorization
  local key = authorization and authorization:match('^[Bb]earer +([%w_-]+)$')
  if not key then return refuse(401, 'missing_api_key', 'Send a key.') end
  local client = connected(port)
  if not client then return refuse(503, 'store_unavailable', 'The store is away.') end
  local limits, failure = limits_of(client, key)
  if not limits then
    client:set_keepalive(60000, POOL)
    if failure then return refuse(503, 'store_unavailable', 'The store is away.') end
    return refuse(401, 'invalid_api_key', 'This key is not known.')
  end
  local minute_limit, day_limit = limits:match('(%d+) (%d+)')
  local reply, err = client:evalsha(DIGEST, 2, 'm:' .. key, 'd:' .. key, minute_limit, day_limit)
  if not reply and err and err:find('NOSCRIPT', 1, true) then
    reply, err = client:eval(SCRIPT, 2, 'm:' .. key, 'd:' .. key, minute_limit, day_limit)
  end
  client:set_keepalive(60000, POOL)
  if not reply then
    ngx.log(ngx.ERR, 'redis: ', err)
    return refuse(503, 'store_unavailable', 'The store is away.')
  end
  local limit, remaining, left = minute_limit, minute_limit - reply[2], reply[3]
  if day_limit - reply[4] < remaining then limit, remaining, left = day_limit, day_limit - reply[4], reply[5] end
  local seconds = math.ceil(math.max(left, 0) / 1000)
  local header = ngx.header
  header['X-RateLimit-Limit'] = limit
  header['X-RateLimit-Remaining'] = string.format('%d', remaining)
  header['X-RateLimit-Reset'] = ngx.time() + seconds
  if reply[1] == 1 then return end
  header['Retry-After'] = seconds
  return refuse(429, 'rate_limit_exceeded', 'The quota of this key is spent.')
end

return gate
