-- Take a dead letter out of the dead-letter stream and record why.
-- KEYS: dlq closed closed_at   ARGV: dead_letter_id record max_closed
-- Returns {'discarded'}, {'closed', json} if it was replayed or discarded before, {'missing'},
-- or {'wrong_type', key}.
local dlq, closed, closed_at = KEYS[1], KEYS[2], KEYS[3]
local letter = ARGV[1]
local TYPES = {'stream', 'hash', 'zset'}
for i, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'none' and kind ~= TYPES[i] then return {'wrong_type', key} end
end
if not redis.call('XRANGE', dlq, letter, letter)[1] then
  local known = redis.call('HGET', closed, letter)
  return known and {'closed', known} or {'missing'}
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local record = cjson.decode(ARGV[2])
record.at = now / 1000
redis.call('HSET', closed, letter, cjson.encode(record))
redis.call('ZADD', closed_at, now, letter)
redis.call('XDEL', dlq, letter)
local excess = redis.call('ZCARD', closed_at) - tonumber(ARGV[3])
if excess > 0 then
  for _, old in ipairs(redis.call('ZRANGE', closed_at, 0, math.min(excess, 100) - 1)) do
    redis.call('ZREM', closed_at, old)
    redis.call('HDEL', closed, old)
  end
end
return {'discarded'}
