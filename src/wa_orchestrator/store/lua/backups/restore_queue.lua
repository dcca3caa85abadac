-- uses: _new_contacts
-- restore_queue: WhatsApp's limits on new contacts have ended, or no session of the phone is left that they could be about;
-- all messages set aside return to their old place in the queue.
-- Atomic because a limit may come back in between.
-- KEYS[1] pace hash  KEYS[2] set-aside zset  KEYS[3] queue zset  KEYS[4] due zset  ARGV[1] phone
-- ARGV[2] 'no_session': whatever limit holds
-- returns {'restored', how many} | {'locked', until ms}
local PACE, ASIDE, QUEUE, DUE = unpack(KEYS)
local phone, why = ARGV[1], ARGV[2]
local now = now_ms()
local lock_until, cap_until = unpack(redis.call('HMGET', PACE, 'lock_until', 'cap_until'))
local limit, ends = new_contact_limit(lock_until, cap_until, now)
if limit and why ~= 'no_session' then return { 'locked', ends } end -- guard: lock_over
local waiting = redis.call('ZRANGE', ASIDE, 0, -1, 'WITHSCORES')
for index = 1, #waiting, 2 do redis.call('ZADD', QUEUE, waiting[index + 1], waiting[index]) end
redis.call('DEL', ASIDE)
redis.call('ZADD', DUE, 'LT', now, phone)
redis.call('PUBLISH', 'dispatch:wake', phone)
return { 'restored', #waiting / 2 }
