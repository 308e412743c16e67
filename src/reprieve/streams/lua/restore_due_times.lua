-- Find messages that wait without a due time, because the key was evicted or deleted, and make them due now.
-- KEYS: queue waiting suspects   ARGV: group waiting_consumer cursor   ('-' at the beginning)
-- Returns {restored, next cursor | '-' at the end}. The sets are compared member by member, a page of 1,000 a
-- call: equal sizes do not prove that they are equal.
local PAGE = 1000
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local page = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], '+', PAGE, ARGV[2])
local restored = 0
for _, pending in ipairs(page) do
  local id = pending[1]
  if not redis.call('ZSCORE', KEYS[2], id) and not redis.call('ZSCORE', KEYS[3], id) then
    redis.call('ZADD', KEYS[2], now, id)
    restored = restored + 1
  end
end
return {restored, #page == PAGE and '(' .. page[#page][1] or '-'}
