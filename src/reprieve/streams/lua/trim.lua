-- Drop entries that every group has acknowledged.
-- KEYS: queue   Returns {entries dropped, lowest id still needed|false}.
local lowest = false
local function less(a, b)
  local a_ms, a_seq = string.match(a, '(%d+)-(%d+)')
  local b_ms, b_seq = string.match(b, '(%d+)-(%d+)')
  if #a_ms ~= #b_ms then return #a_ms < #b_ms end
  if a_ms ~= b_ms then return a_ms < b_ms end
  if #a_seq ~= #b_seq then return #a_seq < #b_seq end
  return a_seq < b_seq
end
for _, row in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local group = {}
  for i = 1, #row, 2 do group[row[i]] = row[i + 1] end
  local need = group['last-delivered-id'] -- the entry after it was not delivered yet
  if group['pending'] > 0 then need = redis.call('XPENDING', KEYS[1], group['name'])[2] end
  if not lowest or less(need, lowest) then lowest = need end
end
if not lowest then return {0, false} end
return {redis.call('XTRIM', KEYS[1], 'MINID', '~', lowest), lowest}
