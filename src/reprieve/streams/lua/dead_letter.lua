-- Acknowledge a message and add it to the dead-letter stream, never one without the other (ORC-4.6).
-- KEYS: queue dlq state paused replayed
-- ARGV: group consumer id deliveries original_message error_context origin pause `pause` is empty, or JSON
-- that says why the group pauses.
-- Returns the id of the dead letter, or false if the message is not ours any more. The dead letter is added
-- first: an error there changes nothing.
local queue, dlq, state, paused, replayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local group, me, id = ARGV[1], ARGV[2], ARGV[3]
local pending = redis.call('XPENDING', queue, group, id, id, 1, me)[1]
if not pending or pending[4] ~= tonumber(ARGV[4]) then return false end
local dead = redis.call('XADD', dlq, '*', 'original_message', ARGV[5], 'error_context', ARGV[6],
  'origin', ARGV[7])
redis.call('XACK', queue, group, id)
redis.call('HDEL', state, id, id .. ':crash', id .. ':out_of_memory', id .. ':lost_lease')
redis.call('SREM', replayed, id)
if ARGV[8] ~= '' then redis.call('SET', paused, ARGV[8], 'NX') end
return dead
