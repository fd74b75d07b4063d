-- What wrk does beyond its own options: keys drawn from a file, a fixed rate, answers compared with the expected one, and a
-- report that a machine can read.
-- Arguments after `--`: the whole request with {key} once, file of tokens (one per line, all of one length), how to draw
-- them (turns, uniform, zipf), requests per second (0: as many as it gets). To compare each answer also: its status, the
-- bytes of its body (-1: any), name and value of a header field (empty: none).
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

-- The connections of wrk run in a Lua state of their own, and `done` runs in another.
local threads = {}
function setup(thread) threads[#threads + 1] = thread end

-- Counts the answers that differ. wrk hands over header and body of each answer if there is a function `response`, which
-- takes CPU from the load; so there is none where nothing is to be compared.
local function compare(status, bytes, name, value)
  wrong = 0
  function response(got, headers, body)
    if got ~= status or (bytes >= 0 and #body ~= bytes) or (name ~= '' and headers[name] ~= value) then
      wrong = wrong + 1
    end
  end
end

function init(args)
  local whole, file, how, rate = args[1], args[2], args[3], tonumber(args[4])
  if args[5] then compare(tonumber(args[5]), tonumber(args[6]), args[7], args[8]) end
  local tokens = read(file)
  local width = assert(tokens:find('\n', 1, true), 'no token')
  local count = #tokens / width
  local draw = drawing(how, count)
  local from, to = whole:find('{key}', 1, true)
  assert(from, 'the request has no {key}')
  local before, after = whole:sub(1, from - 1), whole:sub(to + 1)
  -- With one key too, so that all loads are made in the same way.
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
  local errors, differing = summary.errors, 0
  for _, thread in ipairs(threads) do differing = differing + (thread:get('wrong') or 0) end
  io.write(string.format(
    '\n{"requests":%d,"durationUs":%d,"bytes":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d,"wrong":%d,"p50Us":%d,"p99Us":%d}\n',
    summary.requests, summary.duration, summary.bytes, errors.connect, errors.read, errors.write, errors.status,
    errors.timeout, differing, latency:percentile(50), latency:percentile(99)))
end
