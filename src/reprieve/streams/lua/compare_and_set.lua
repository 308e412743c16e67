-- Replace a value if it is still the one that the caller decided on.
-- KEYS: key   ARGV: expected new ttl_ms An empty text stands for an absent key.
-- Returns {1 if replaced, the value now|false, the server's time in ms}.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local current = redis.call('GET', KEYS[1])
if (current or '') ~= ARGV[1] then return {0, current, now} end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
elseif ARGV[2] ~= ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return {1, ARGV[2] ~= '' and ARGV[2], now}
