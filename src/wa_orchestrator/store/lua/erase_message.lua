-- erase_message: forget a message that ended long ago, with its story and its places in the indexes.
-- Atomic because a retry may bring it back to life in the same moment: then it must stay whole.
-- KEYS[1] message hash  KEYS[2] story list  KEYS[3] ended zset  KEYS[4] dead zset  KEYS[5] index zset
-- KEYS[6] index of the session  KEYS[7] index of the recipient  KEYS[8] index of the reference
-- ARGV[1] id  ARGV[2] ended at or before ms
-- returns {'erased'} | {'kept'}
local ended = redis.call('ZSCORE', KEYS[3], ARGV[1])
if not ended or tonumber(ended) > tonumber(ARGV[2]) then return { 'kept' } end -- guard: ended_long_ago
redis.call('DEL', KEYS[1], KEYS[2])
for index = 3, 8 do redis.call('ZREM', KEYS[index], ARGV[1]) end
return { 'erased' }
