-- What wrk does beyond its own options: keys drawn from a file, a fixed rate, and a report that a machine can read.
-- Arguments after `--`: method, path, bytes of the body, file of tokens (one per line, all of one length), how to draw
-- them (turns, uniform, zipf), requests per second (0: as many as it gets).
local ffi = require 'ffi'
ffi.cdef [[
  typedef struct { long seconds; long nanoseconds; } bench_time;
  int clock_gettime(int clock, bench_time *time);
]]

local time = ffi.new('bench_time')
local function now_ms()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.seconds) * 1000 + tonumber(time.nanoseconds) / 1e6
end

local function read(file)
  local handle = assert(io.open(file, 'rb'))
  local text = handle:read('*a')
  handle:close()
  return text
end

-- Draws a number from 0 to count - 1.
local function drawing(how, count)
  math.randomseed(20260101)
  local turn = -1
  if how == 'turns' then
    return function()
      turn = turn + 1
      return turn % count
    end
  elseif how == 'uniform' then
    return function() return math.random(0, count - 1) end
  end
  -- Zipf with exponent 1, by the inverse of its continuous distribution; the ranks are scattered over the file.
  return function()
    local rank = math.floor((count + 1) ^ math.random()) - 1
    return (rank * 7919) % count
  end
end

function init(args)
  local method, path, body, file = args[1], args[2], string.rep('x', tonumber(args[3])), args[4]
  local how, rate = args[5], tonumber(args[6])
  local tokens = read(file)
  local width = assert(tokens:find('\n', 1, true), 'no token')
  local count = #tokens / width
  wrk.method = method
  wrk.path = path
  if #body > 0 then
    wrk.body = body
    wrk.headers['Content-Type'] = 'application/json'
  end
  wrk.headers['Authorization'] = 'Bearer ' .. tokens:sub(1, width - 1)
  -- With one key too, so that all loads are made in the same way.
  local draw = drawing(how, count)
  local whole = wrk.format()
  local from, to = whole:find(tokens:sub(1, width - 1), 1, true)
  local before, after = whole:sub(1, from - 1), whole:sub(to + 1)
  function request()
    local at = draw() * width
    return before .. tokens:sub(at + 1, at + width - 1) .. after
  end
  if rate > 0 then
    -- Each request has its place on one schedule for all connections; who comes late goes at once.
    local every, following = 1000 / rate, nil
    function delay()
      local now = now_ms()
      following = math.max((following or now) + every, now - 1000)
      return math.max(0, math.floor(following - now + 0.5))
    end
  end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"durationUs":%d,"bytes":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d,"p50Us":%d,"p99Us":%d}\n',
    summary.requests, summary.duration, summary.bytes, errors.connect, errors.read, errors.write, errors.status,
    errors.timeout, latency:percentile(50), latency:percentile(99)))
end
