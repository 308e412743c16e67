-- Replace an alert if it is still the one that the caller decided on, and queue what sinks are to be told.
-- KEYS: alerts notifications   ARGV: field expected new notification...   An empty text stands for an absent
-- field.
-- Returns {1 if replaced, the alert now|false, the server's time in ms}.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local current = redis.call('HGET', KEYS[1], ARGV[1])
if (current or '') ~= ARGV[2] then return {0, current, now} end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
for i = 4, #ARGV do redis.call('ZADD', KEYS[2], now, ARGV[i]) end
return {1, ARGV[3] ~= '' and ARGV[3], now}
