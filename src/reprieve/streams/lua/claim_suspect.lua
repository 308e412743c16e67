-- Claim one suspect, a message that a lost consumer held, and charge it with a crash before it runs. Every
-- other end than a crash takes the charge back.
-- KEYS: queue suspects waiting state paused   ARGV: group consumer waiting_consumer
-- Returns {id, fields, deliveries, history|false, lost_lease, crash, out_of_memory} with the counters before
-- this charge, or false: there is none, or the group is paused.
if redis.call('EXISTS', KEYS[5]) == 1 then return false end
local queue, suspects, waiting, state = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local group, me, waiter = ARGV[1], ARGV[2], ARGV[3]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', suspects, '-inf', now, 'LIMIT', 0, 100)) do
  local pending = redis.call('XPENDING', queue, group, id, id, 1)[1]
  local entry = pending and redis.call('XRANGE', queue, id, id)[1]
  redis.call('ZREM', suspects, id)
  if pending and not entry then -- trimmed: claim_due writes its dead letter
    redis.call('ZADD', waiting, now, id)
  elseif pending and pending[2] == waiter then
    redis.call('XCLAIM', queue, group, me, 0, id)
    local known = redis.call('HMGET', state, id, id .. ':lost_lease', id .. ':crash', id .. ':out_of_memory')
    redis.call('HINCRBY', state, id .. ':crash', 1)
    local lost_lease, crash, out_of_memory = known[2] or 0, known[3] or 0, known[4] or 0
    return {id, entry[2], pending[4] + 1, known[1], tonumber(lost_lease), tonumber(crash), tonumber(out_of_memory)}
  elseif not pending then
    redis.call('HDEL', state, id, id .. ':crash', id .. ':out_of_memory', id .. ':lost_lease')
  end
end
return false
