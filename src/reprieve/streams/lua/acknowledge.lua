-- Acknowledge messages that failed before, and forget their history.
-- KEYS: queue state replayed   ARGV: group id...
-- Returns how many were still pending.
local acknowledged = 0
for i = 2, #ARGV do
  local id = ARGV[i]
  acknowledged = acknowledged + redis.call('XACK', KEYS[1], ARGV[1], id)
  redis.call('HDEL', KEYS[2], id, id .. ':crash', id .. ':out_of_memory', id .. ':lost_lease')
  redis.call('SREM', KEYS[3], id)
end
return acknowledged
