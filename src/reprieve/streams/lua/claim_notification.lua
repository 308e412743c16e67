-- Claim one notification that is due for a sink, for as long as telling it may take.
-- KEYS: notifications   ARGV: sink lease_ms give_up_seconds
-- Returns the notification, which is its own member of the set, or false. Notifications of other sinks that are
-- older than give_up_seconds are dropped: no consumer has those sinks any more. The due ones of other sinks are
-- passed over a page at a time, so that many of them hide none of this sink.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local oldest = now / 1000 - tonumber(ARGV[3])
local PAGE, MAX_PAGES = 100, 50
local offset = 0
for _ = 1, MAX_PAGES do
  local page = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', offset, PAGE)
  for _, member in ipairs(page) do
    local notification = cjson.decode(member)
    if notification.sink == ARGV[1] then
      redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), member)
      return member
    elseif notification.at < oldest then
      redis.call('ZREM', KEYS[1], member)
    else
      offset = offset + 1
    end
  end
  if #page < PAGE then break end
end
return false
