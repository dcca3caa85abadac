-- uses: _message
-- reroute_message: a message that waits gets another sender. It leaves the place where it waits and becomes a job again, with its old sequence.
-- Atomic because leaving one phone's queue and belonging to another phone must be one step: it must never wait twice or nowhere.
-- KEYS: the message layout (of its present phone and session), then KEYS[16] jobs list  KEYS[17] waiting hash  KEYS[18] scheduled zset
-- ARGV[4] the new phone  ARGV[5] the new session
-- returns {'rerouted'} | {'too_late', status} | {'unknown'} | {'moved'}
local now = now_ms()
local status = redis.call('HGET', MESSAGE, 'status')
if not status then return { 'unknown' } end
if status ~= 'queued' then return { 'too_late', status } end -- guard: reroute_waiting
if elsewhere() then return { 'moved' } end -- guard: reroute_place
-- WhatsApp may have what a worker ever held; from another phone it would be another message to the recipient. Attempts would
-- not tell: a retry counts them anew. See domain/trials.py.
local held = redis.call('HMGET', MESSAGE, 'claimed_at', 'freed')
local tried = (held[1] or '') ~= '' and (held[2] or '') == ''
if tried and ARGV[4] ~= PHONE then return { 'too_late', 'tried' } end -- guard: reroute_untried
if redis.call('LREM', KEYS[16], 1, ID) > 0 and redis.call('HINCRBY', KEYS[17], PHONE, -1) <= 0 then redis.call('HDEL', KEYS[17], PHONE) end
redis.call('ZREM', KEYS[18], ID)
redis.call('ZREM', QUEUE, ID)
redis.call('ZREM', ASIDE, ID)
redis.call('HSET', MESSAGE, 'phone', ARGV[4], 'session', ARGV[5])
redis.call('RPUSH', KEYS[16], ID)
redis.call('HINCRBY', KEYS[17], ARGV[4], 1)
redis.call('RPUSH', STORY, string.format('%.0f', now) .. ' queued REROUTED')
redis.call('PUBLISH', 'dispatch:wake', ARGV[4])
return { 'rerouted' }
