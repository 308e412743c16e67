-- Give back what is pending under a consumer that does not hold it: after a lost reply, and when the consumer
-- stops.
-- KEYS: queue waiting consumers   ARGV: group consumer waiting_consumer leave(1|0) id...   (ids that are
-- held)
-- Returns {given back, 1 if there may be more}. A page of 1,000 a call, so that the server is never blocked
-- for long.
local queue, waiting, consumers = KEYS[1], KEYS[2], KEYS[3]
local group, me, waiter = ARGV[1], ARGV[2], ARGV[3]
local PAGE = 1000
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local held = {}
for i = 5, #ARGV do held[ARGV[i]] = true end
local released, kept, from = 0, 0, '-'
local page
repeat
  page = redis.call('XPENDING', queue, group, from, '+', PAGE, me)
  for _, pending in ipairs(page) do
    local id = pending[1]
    if held[id] then
      kept = kept + 1
    else
      redis.call('ZADD', waiting, now, id)
      if redis.call('XRANGE', queue, id, id)[1] then
        redis.call('XCLAIM', queue, group, waiter, 0, id, 'JUSTID')
        released = released + 1
      else
        kept = kept + 1 -- trimmed: claim_due writes its dead letter
      end
    end
    from = '(' .. id
  end
until #page < PAGE or released >= PAGE
local more = #page == PAGE and 1 or 0
if ARGV[4] == '1' and more == 0 then
  if kept == 0 then redis.call('XGROUP', 'DELCONSUMER', queue, group, me) end
  redis.call('ZREM', consumers, me)
end
return {released, more}
