-- uses: _event
-- remove_session: forget a session and free its slot. The phone's sticky proxy stays unless asked otherwise.
-- Atomic because a slot without a session, or a session without its record, would never be freed.
-- KEYS[1] session hash  KEYS[2] all sessions  KEYS[3] active sessions  KEYS[4] temporary binding  KEYS[5] sessions of the phone
-- KEYS[6] sessions of its proxy  KEYS[7] QR  KEYS[8] session's events  KEYS[9] events  KEYS[10] commands  KEYS[11] provisioning list
-- KEYS[12] sticky  KEYS[13] outbox  KEYS[14] epoch that new sessions begin with  KEYS[15] holds hash
-- ARGV[1] session id  ARGV[2] 'forget' = the sticky binding too, else ''  ARGV[3] proxy as seen  ARGV[4] phone as seen
-- returns {'removed'} | {'unknown'} | {'changed'} | {'in_flight', message id}
local id = ARGV[1]
local known = redis.call('HMGET', KEYS[1], 'proxy', 'phone', 'epoch')
if not known[1] then return { 'unknown' } end
if known[1] ~= ARGV[3] or known[2] ~= ARGV[4] then return { 'changed' } end -- guard: remove_seen
local waiting = redis.call('LINDEX', KEYS[13], 0)
if waiting then return { 'in_flight', waiting } end -- guard: outbox_empty
-- A session that is made under this id later must not believe this one's workers: their epochs stay in the past.
local floor = tonumber(redis.call('GET', KEYS[14]) or 0)
if tonumber(known[3]) > floor then redis.call('SET', KEYS[14], known[3]) end -- guard: epoch_floor
for index = 2, 3 do redis.call('SREM', KEYS[index], id) end
redis.call('SREM', KEYS[5], id)
redis.call('SREM', KEYS[6], id)
redis.call('LREM', KEYS[11], 0, id)
redis.call('HDEL', KEYS[15], 'session:' .. id)
redis.call('DEL', KEYS[1], KEYS[4], KEYS[7], KEYS[8], KEYS[10])
if ARGV[2] == 'forget' then redis.call('DEL', KEYS[12]) end
emit(KEYS[9], 'session.removed', now_ms(), 'session', id, 'phone', known[2])
return { 'removed' }
