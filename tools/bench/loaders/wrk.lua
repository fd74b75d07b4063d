-- What wrk does beyond its own options: keys from a file, an even rate, answers compared with the expected one, and a report that a
-- machine can read.
-- Arguments after `--`: the whole request with {key} once, file of tokens (one per line, all of one length), how many of them
-- the loads before have taken, requests per second (0: as many as it gets), connections. To compare each answer also: its status,
-- the bytes of its body (-1: any), name and value of a header field (empty: none).
local ffi = require 'ffi'
ffi.cdef [[
  typedef struct { long seconds; long nanoseconds; } bench_time;
  int clock_gettime(int clock, bench_time *time);
  int nanosleep(const bench_time *time, bench_time *left);
  int prctl(int option, unsigned long value);
  int open(const char *path, int flags, ...);
  long lseek(int file, long offset, int whence);
  void *mmap(void *at, size_t length, int protection, int flags, int file, long offset);
]]

local MONOTONIC, CPU_OF_PROCESS = 1, 2
local PR_SET_TIMERSLACK = 29
-- The first requests at an even rate are not measured: connections open, and what is hot becomes fast.
local LEAD_IN_MS = 200

local time = ffi.new('bench_time')
local function clock_ms(clock)
  ffi.C.clock_gettime(clock, time)
  return tonumber(time.seconds) * 1000 + tonumber(time.nanoseconds) / 1e6
end

-- One copy in memory for all threads. @return its bytes and how many
local function mapped(file)
  local handle = ffi.C.open(file, 0)
  assert(handle >= 0, 'the file of tokens cannot be opened')
  local size = tonumber(ffi.C.lseek(handle, 0, 2))
  return ffi.cast('const char *', ffi.C.mmap(nil, size, 1, 1, handle, 0)), size
end

-- The connections of wrk run in a Lua state of their own for each thread; `setup` and `done` run in another.
local threads = {}
local all_begin_ms
function setup(thread)
  threads[#threads + 1] = thread
  all_begin_ms = all_begin_ms or clock_ms(MONOTONIC) + 200
  thread:set('index', #threads - 1)
  thread:set('begin_ms', all_begin_ms)
end

-- How often a time came up, by the logarithm of its microseconds: each bucket is 1 % wide.
local function record(buckets, ms)
  local at = math.max(0, math.floor(math.log(ms * 1000) * 100))
  buckets[at] = (buckets[at] or 0) + 1
end

local function percentile_us(name, percent)
  local buckets, count, last = {}, 0, 0
  for _, thread in ipairs(threads) do
    for at, times in pairs(thread:get(name) or {}) do
      buckets[at] = (buckets[at] or 0) + times
      count, last = count + times, math.max(last, at)
    end
  end
  local rank = math.ceil(count * percent / 100)
  for at = 0, last do
    rank = rank - (buckets[at] or 0)
    if rank <= 0 then return math.exp((at + 0.5) / 100) end
  end
  return 0
end

-- wrk hands over header and body of each answer if there is a function `response`, which takes CPU from the load; so there is
-- none where nothing is to be compared or timed.
local function comparing(status, bytes, name, value)
  wrong = 0
  return function(got, headers, body)
    if got ~= status or (bytes >= 0 and #body ~= bytes) or (name ~= '' and headers[name] ~= value) then
      wrong = wrong + 1
    end
  end
end

-- Each connection has a thread, which sleeps until a request is due. A connection whose last answer is still out sends its next
-- request as soon as it can, and what that takes counts from when it was due.
local function at_even_rate(rate, connections, ask, compare)
  local every_ms = 1000 * connections / rate
  local due_ms = begin_ms + index * 1000 / rate - every_ms
  local free_ms, is_due = 0, false
  took, late = {}, {}
  function delay()
    if free_ms == 0 then
      ffi.C.prctl(PR_SET_TIMERSLACK, 1)
      cpu_ms = clock_ms(CPU_OF_PROCESS)
    end
    free_ms = clock_ms(MONOTONIC)
    due_ms, is_due = due_ms + every_ms, true
    -- The timers of wrk have milliseconds; the rest is slept in `request`.
    return math.max(0, math.floor(due_ms - free_ms - 0.3))
  end
  function request()
    -- wrk asks for one request before it begins.
    if not is_due then return ask() end
    local left_ms = due_ms - clock_ms(MONOTONIC)
    if left_ms > 0 then
      time.seconds, time.nanoseconds = math.floor(left_ms / 1000), left_ms % 1000 * 1e6
      ffi.C.nanosleep(time, nil)
    end
    if due_ms >= begin_ms + LEAD_IN_MS then record(late, clock_ms(MONOTONIC) - math.max(due_ms, free_ms)) end
    return ask()
  end
  function response(...)
    if due_ms >= begin_ms + LEAD_IN_MS then record(took, clock_ms(MONOTONIC) - due_ms) end
    if compare then compare(...) end
  end
end

function init(args)
  local whole, file, turn, rate, connections = args[1], args[2], tonumber(args[3]), tonumber(args[4]), tonumber(args[5])
  local compare = args[6] and comparing(tonumber(args[6]), tonumber(args[7]), args[8], args[9])
  local tokens, size = mapped(file)
  local width = assert(ffi.string(tokens, math.min(size, 1000)):find('\n', 1, true), 'no token')
  local count = size / width
  local from, to = whole:find('{key}', 1, true)
  assert(from, 'the request has no {key}')
  local before, after = whole:sub(1, from - 1), whole:sub(to + 1)
  -- At an even rate the threads take the tokens in turn; else there is one thread.
  local step = rate > 0 and connections or 1
  turn = turn + index
  -- With one key too, so that all loads are made in the same way.
  local function ask()
    local at = turn % count * width
    turn = turn + step
    return before .. ffi.string(tokens + at, width - 1) .. after
  end
  if rate > 0 then return at_even_rate(rate, connections, ask, compare) end
  request, response = ask, compare
end

function done(summary, latency)
  local errors, differing = summary.errors, 0
  for _, thread in ipairs(threads) do differing = differing + (thread:get('wrong') or 0) end
  local is_even = threads[1]:get('took') ~= nil
  io.write(string.format(
    '\n{"requests":%d,"durationUs":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d,"wrong":%d,"p50Us":%d,"p99Us":%d,"lateP99Us":%d,"loaderCpuUs":%.1f}\n',
    summary.requests, summary.duration, errors.connect, errors.read, errors.write, errors.status, errors.timeout, differing,
    is_even and percentile_us('took', 50) or latency:percentile(50),
    is_even and percentile_us('took', 99) or latency:percentile(99),
    percentile_us('late', 99),
    (clock_ms(CPU_OF_PROCESS) - (threads[1]:get('cpu_ms') or 0)) * 1000 / math.max(1, summary.requests)))
end
