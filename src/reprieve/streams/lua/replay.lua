-- Give a dead letter back to its group, once, and record it.
-- KEYS: queue dlq closed closed_at waiting state replayed
-- ARGV: dead_letter_id group waiting_consumer message_id deliveries history record all_groups(1|0) max_closed
--       field value...
-- Returns {outcome, detail...}:
--   'claimed', id      the original entry exists: it was claimed for the waiting consumer of this group only
--   'added', id        the original entry is gone: the message was added to the queue anew
--   'closed', json     it was replayed or discarded before
--   'missing'          there is no such dead letter
--   'pending', name    the group still has the original
--   'undelivered'      the group has not reached the original yet
--   'no_group'         the original exists, its group does not
--   'other_groups'...  an added entry would reach these groups too
--   'too_wide', n      too many fields to add in a script
--   'wrong_type', key  another program uses this key
-- Everything that can be refused is looked at before the first write: a script is not undone after an error.
local queue, dlq, closed, closed_at = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local waiting, state, replayed = KEYS[5], KEYS[6], KEYS[7]
local letter, group, waiter, id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local FIRST_FIELD = 10
local MAX_VALUES = 7000 -- `unpack` puts every value on Lua's stack, which has room for about 8,000

local TYPES = {'stream', 'stream', 'hash', 'zset', 'zset', 'hash', 'set'}
for i, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'none' and kind ~= TYPES[i] then return {'wrong_type', key} end
end

local function parts(entry_id) return string.match(entry_id, '(%d+)-(%d+)') end
local function less(a, b)
  local a_ms, a_seq = parts(a)
  local b_ms, b_seq = parts(b)
  if #a_ms ~= #b_ms then return #a_ms < #b_ms end
  if a_ms ~= b_ms then return a_ms < b_ms end
  if #a_seq ~= #b_seq then return #a_seq < #b_seq end
  return a_seq < b_seq
end

local function is_original(entry)
  local fields = entry[2]
  if #fields ~= #ARGV - FIRST_FIELD + 1 then return false end
  for i = 1, #fields do
    if fields[i] ~= ARGV[FIRST_FIELD + i - 1] then return false end
  end
  return true
end

if not redis.call('XRANGE', dlq, letter, letter)[1] then
  local known = redis.call('HGET', closed, letter)
  return known and {'closed', known} or {'missing'}
end

local groups, others, last_delivered = {}, {}, false
if redis.call('EXISTS', queue) == 1 then groups = redis.call('XINFO', 'GROUPS', queue) end
for _, row in ipairs(groups) do
  local one = {}
  for i = 1, #row, 2 do one[row[i]] = row[i + 1] end
  if one.name == group then
    last_delivered = one['last-delivered-id']
  else
    others[#others + 1] = one.name
  end
end

local entry = id ~= '' and redis.call('XRANGE', queue, id, id)[1]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local outcome, new_id
if entry and group ~= '' and is_original(entry) then
  if not last_delivered then return {'no_group'} end
  local pending = redis.call('XPENDING', queue, group, id, id, 1)[1]
  if pending then return {'pending', pending[2]} end
  if less(last_delivered, id) then return {'undelivered'} end
  redis.call('XCLAIM', queue, group, waiter, 0, id, 'RETRYCOUNT', ARGV[5], 'FORCE', 'JUSTID')
  redis.call('ZADD', waiting, now, id)
  redis.call('HSET', state, id, ARGV[6])
  redis.call('HDEL', state, id .. ':crash', id .. ':out_of_memory', id .. ':lost_lease')
  outcome, new_id = 'claimed', id
else
  if ARGV[8] ~= '1' and #others > 0 then return {'other_groups', unpack(others, 1, math.min(#others, 20))} end
  if #ARGV - FIRST_FIELD + 1 > MAX_VALUES then return {'too_wide', #ARGV - FIRST_FIELD + 1} end
  new_id = redis.call('XADD', queue, '*', unpack(ARGV, FIRST_FIELD))
  if group ~= '' then
    redis.call('HSET', state, new_id, ARGV[6])
    redis.call('SADD', replayed, new_id)
  end
  outcome = 'added'
end

local record = cjson.decode(ARGV[7])
record.at, record.message_id = now / 1000, new_id
redis.call('HSET', closed, letter, cjson.encode(record))
redis.call('ZADD', closed_at, now, letter)
redis.call('XDEL', dlq, letter)
local excess = redis.call('ZCARD', closed_at) - tonumber(ARGV[9])
if excess > 0 then
  for _, old in ipairs(redis.call('ZRANGE', closed_at, 0, math.min(excess, 100) - 1)) do
    redis.call('ZREM', closed_at, old)
    redis.call('HDEL', closed, old)
  end
end
return {outcome, new_id}
