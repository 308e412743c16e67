-- Claim one notification that is due for a sink, for as long as telling it may take.
-- KEYS: notifications   ARGV: sink lease_ms
-- Returns the notification, which is its own member of the set, or false.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 100)) do
  if cjson.decode(member).sink == ARGV[1] then
    redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), member)
    return member
  end
end
return false
