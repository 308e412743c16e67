-- Leave messages pending, to be delivered again when their delay is over (ORC-4.5).
-- KEYS: queue waiting state suspects
-- ARGV: group consumer waiting_consumer, then (id deliveries delay_ms history)...
-- An empty history gives a message back and records nothing. A suspect goes back to the suspects then, without
-- the charge of its claim.
-- Returns for each message: 1 scheduled, 0 not ours any more, 2 trimmed from its stream (nothing was
-- changed). The fence is the consumer and the number of deliveries. Every claim counts a delivery and nothing
-- takes one back, so a run that lost its message cannot decide about a later delivery to the same consumer.
local queue, waiting, state, suspects = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local group, me, waiter = ARGV[1], ARGV[2], ARGV[3]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local results = {}
for i = 4, #ARGV, 4 do
  local id, deliveries, delay, history = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3]
  local pending = redis.call('XPENDING', queue, group, id, id, 1, me)[1]
  local result = 0
  if pending and pending[4] == deliveries then
    if not redis.call('XRANGE', queue, id, id)[1] then
      result = 2 -- since Redis 7 a claim would drop it from the pending list
    else
      redis.call('XCLAIM', queue, group, waiter, 0, id, 'JUSTID')
      local crash = id .. ':crash'
      if history ~= '' then
        redis.call('ZADD', waiting, now + delay, id)
        redis.call('HSET', state, id, history)
        redis.call('HDEL', state, crash, id .. ':out_of_memory')
      elseif tonumber(redis.call('HGET', state, crash) or 0) > 0 then
        redis.call('ZADD', suspects, now + delay, id)
        if redis.call('HINCRBY', state, crash, -1) == 0 then redis.call('HDEL', state, crash) end
      else
        redis.call('ZADD', waiting, now + delay, id)
      end
      result = 1
    end
  end
  results[#results + 1] = result
end
return results
