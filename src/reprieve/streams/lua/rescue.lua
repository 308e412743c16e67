-- Hand what lost consumers held back to the group, and delete the lost consumers.
-- KEYS: queue waiting suspects state consumers rescue_hold lost
-- ARGV: group consumer waiting_consumer prefix lease_ms max adopt_idle_ms(0: never)
-- Returns {messages handed back, consumers deleted, pending under the waiting consumer, waiting and suspects,
-- ms until the first lease of the others runs out}. A consumer of ours is lost when its heartbeat is older
-- than the lease, or when a supervisor says so. A consumer of another tool is never deleted, and its messages
-- are taken over only after they were idle for adopt_idle_ms.
local queue, waiting, suspects, state = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local consumers, rescue_hold, lost = KEYS[5], KEYS[6], KEYS[7]
local group, me, waiter, prefix = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local lease, max, adopt_idle = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local moved, deleted, held_back, next_end = 0, 0, 0, lease

local function count(cause, id)
  if cause == 'deploy' then return false end
  if cause == 'out_of_memory' and tonumber(redis.call('HGET', state, id .. ':crash') or 0) > 0 then
    -- It ran alone and was charged with a crash. The supervisor knows better.
    redis.call('HINCRBY', state, id .. ':crash', -1)
    redis.call('HINCRBY', state, id .. ':out_of_memory', 1)
  elseif not cause then
    redis.call('HINCRBY', state, id .. ':lost_lease', 1)
  end
  return true
end

local function hand_back(name, page, suspect, cause)
  local left = 0
  for _, pending in ipairs(page) do
    local id = pending[1]
    if redis.call('XRANGE', queue, id, id)[1] then
      redis.call('XCLAIM', queue, group, waiter, 0, id, 'JUSTID')
      if suspect and count(cause, id) then
        redis.call('ZADD', suspects, now, id)
      else
        redis.call('ZADD', waiting, now, id)
      end
      moved = moved + 1
    else
      redis.call('ZADD', waiting, now, id) -- trimmed: claim_due writes its dead letter
      left = left + 1
    end
  end
  return left
end

local beat = redis.call('ZSCORE', consumers, me)
if not beat or now - beat > lease then redis.call('SET', rescue_hold, me, 'PX', lease) end
local holds = redis.call('EXISTS', rescue_hold) == 1
for _, row in ipairs(redis.call('XINFO', 'CONSUMERS', queue, group)) do
  local consumer = {}
  for i = 1, #row, 2 do consumer[row[i]] = row[i + 1] end
  local name = consumer.name
  if name == waiter then
    held_back = consumer.pending
  elseif name ~= me and moved < max and string.sub(name, 1, #prefix) == prefix then
    local last, cause = redis.call('ZSCORE', consumers, name), redis.call('HGET', lost, name)
    if not last and not cause then
      redis.call('ZADD', consumers, now, name) -- the key was lost: a lease from now
    elseif not cause and now - last <= lease then
      if consumer.pending > 0 then next_end = math.min(next_end, last + lease - now) end
    elseif cause or (now - last > lease and not holds) then
      local page = redis.call('XPENDING', queue, group, '-', '+', max, name)
      local left = hand_back(name, page, true, cause)
      if #page < max and left == 0 then -- nothing is pending under it any more, so deleting it loses nothing
        redis.call('XGROUP', 'DELCONSUMER', queue, group, name)
        redis.call('ZREM', consumers, name)
        redis.call('HDEL', lost, name)
        deleted = deleted + 1
      end
    end
  elseif name ~= me and adopt_idle > 0 and consumer.pending > 0 and moved < max then
    local page = redis.call('XPENDING', queue, group, 'IDLE', adopt_idle, '-', '+', max, name)
    hand_back(name, page, false, false)
  end
end
local scheduled = redis.call('ZCARD', waiting) + redis.call('ZCARD', suspects)
return {moved, deleted, held_back, scheduled, math.ceil(next_end)}
