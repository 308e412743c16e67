-- Claim messages whose retry is due; none while the group is paused.
-- KEYS: queue dlq waiting state suspects paused
-- ARGV: group consumer waiting_consumer want fewest_attempts(1|0) context_head context_tail
-- Returns { {{id, fields, deliveries, history|false, lost_lease}...}, ms to the next due message|-1,
-- suspects that are due, {dead letters of trimmed messages...}, error|false, paused(1|0) }. A message that was trimmed
-- while it waited becomes a dead letter without its content: it is never passed over in silence. The dead
-- letter is written before the acknowledgement. If it cannot be written, the message keeps waiting.
if redis.call('EXISTS', KEYS[6]) == 1 then return {{}, -1, 0, {}, false, 1} end
local queue, dlq, waiting, state, suspects = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local group, me, waiter, want = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local claimed, trimmed, failure = {}, {}, false
local RETRY_MS = 60000 -- until a dead letter that could not be written is tried again
local SCAN = 500 -- due messages that a probe is chosen from

local function handler_attempts(id)
  local history = redis.call('HGET', state, id)
  if not history then return 0 end
  return tonumber(string.match(history, '"handler":%s*(%d+)')) or 0
end

local function forget(id)
  redis.call('ZREM', waiting, id)
  redis.call('HDEL', state, id, id .. ':crash', id .. ':out_of_memory', id .. ':lost_lease')
end

local function dead_letter_trimmed(id)
  local context = ARGV[6] .. handler_attempts(id) .. ARGV[7]
  local origin = cjson.encode({queue = queue, id = id, group = group})
  local dead = redis.pcall('XADD', dlq, '*', 'original_message', 'null', 'error_context', context,
    'origin', origin)
  if type(dead) == 'table' and dead.err then
    failure = dead.err
    redis.call('ZADD', waiting, now + RETRY_MS, id)
    return
  end
  redis.call('XACK', queue, group, id)
  forget(id)
  trimmed[#trimmed + 1] = id
end

local ids = {}
if want > 0 then
  ids = redis.call('ZRANGEBYSCORE', waiting, '-inf', now, 'LIMIT', 0, ARGV[5] == '1' and SCAN or want)
  if ARGV[5] == '1' then
    local attempts = {}
    for _, id in ipairs(ids) do attempts[id] = handler_attempts(id) end
    table.sort(ids, function(a, b) return attempts[a] < attempts[b] end)
  end
end
for _, id in ipairs(ids) do
  if #claimed == want then break end
  local pending = redis.call('XPENDING', queue, group, id, id, 1)[1]
  if not pending then -- acknowledged meanwhile, by a consumer that was thought to be lost
    forget(id)
  else
    local entry = redis.call('XRANGE', queue, id, id)[1]
    if not entry then
      dead_letter_trimmed(id)
    elseif pending[2] ~= waiter then -- another consumer holds it
      redis.call('ZREM', waiting, id)
    else
      redis.call('XCLAIM', queue, group, me, 0, id)
      redis.call('ZREM', waiting, id)
      local known = redis.call('HMGET', state, id, id .. ':lost_lease')
      claimed[#claimed + 1] = {id, entry[2], pending[4] + 1, known[1], tonumber(known[2] or 0)}
    end
  end
end
local first = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')
local wait = first[2] and math.max(0, math.ceil(first[2] - now)) or -1
return {claimed, wait, redis.call('ZCOUNT', suspects, '-inf', now), trimmed, failure, 0}
