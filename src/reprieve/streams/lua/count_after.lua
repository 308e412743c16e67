-- Count entries after an id, a page of 10,000 a call: Redis 6.2 does not know a group's lag.
-- KEYS: queue   ARGV: id   Returns {entries of this page, last id | false if there are no more}.
local PAGE = 10000
local entries = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', PAGE)
return {#entries, #entries == PAGE and entries[#entries][1]}
