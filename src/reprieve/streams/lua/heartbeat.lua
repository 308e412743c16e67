-- Renew a consumer's heartbeat by the server's clock.
-- KEYS: consumers rescue_hold   ARGV: consumer lease_ms first(1|0)
-- Returns the ms since the heartbeat before this one, or -1. A heartbeat that came later than a lease means
-- that this process, or the server's clock, jumped: then others look lost too although they live. Nothing is
-- rescued for one lease, so that they can renew theirs first.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local lease = tonumber(ARGV[2])
local before = redis.call('ZSCORE', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[1], now, ARGV[1])
local age = before and now - before or -1
if ARGV[3] == '0' and (age < 0 or age > lease) then redis.call('SET', KEYS[2], ARGV[1], 'PX', lease) end
return age
