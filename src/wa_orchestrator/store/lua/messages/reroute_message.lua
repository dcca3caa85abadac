-- uses: _message
-- uses: _conversation
-- reroute_message: give a waiting message another sender: it leaves the place where it waits and becomes a job again, with its old sequence.
-- Atomic because leaving one phone's queue and belonging to another phone must be one step: it must never wait twice or nowhere.
-- KEYS: the message layout (of its present phone and session), then KEYS[17] jobs list  KEYS[18] waiting hash  KEYS[19] scheduled zset
-- KEYS[20] affinity string  KEYS[21] later zset of its phone  KEYS[22] later zset of the new phone
-- ARGV[4] the new phone  ARGV[5] the new session
-- returns {'rerouted'} | {'too_late', status} | {'unknown'} | {'moved'}
local JOBS, WAITING, SCHEDULED, AFFINITY, LATER, NEW_LATER = unpack(KEYS, 17, 22)
local new_phone, new_session = ARGV[4], ARGV[5]
local now = now_ms()
local status = redis.call('HGET', MESSAGE, 'status')
if not status then return { 'unknown' } end
if status ~= 'queued' then return { 'too_late', status } end -- guard: reroute_waiting
if has_moved() then return { 'moved' } end -- guard: reroute_place
-- WhatsApp may have what a worker ever held; from another phone the recipient would get a second message. The attempts cannot
-- be used for this: a retry resets them. See `is_tied_to_its_phone` in domain/messages/sender_policy.py.
local claimed_at, freed, pinned = unpack(redis.call('HMGET', MESSAGE, 'claimed_at', 'freed', 'pinned'))
local tried = (claimed_at or '') ~= '' and (freed or '') == ''
if tried and new_phone ~= PHONE then return { 'too_late', 'tried' } end -- guard: reroute_untried
leave_waiting(JOBS, WAITING, SCHEDULED, LATER)
local accepted_at = redis.call('HGET', MESSAGE, 'accepted_at')
remove_status(STATUSES, SESSION_ID, status, accepted_at, ID)
add_status(STATUSES, new_session, status, accepted_at, ID)
redis.call('HSET', MESSAGE, 'phone', new_phone, 'session', new_session)
if (pinned or '') == '' then set_sender(AFFINITY, new_session) end -- its next messages follow
redis.call('RPUSH', JOBS, ID)
local due = tonumber(redis.call('HGET', MESSAGE, 'due_at') or 0)
if due > 0 then redis.call('ZADD', NEW_LATER, due, ID) else redis.call('HINCRBY', WAITING, new_phone, 1) end
add_to_timeline(now, 'queued', 'REROUTED')
redis.call('PUBLISH', 'dispatch:wake', new_phone)
return { 'rerouted' }
