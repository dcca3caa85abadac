-- uses: _event
-- remove_session: delete a session and free its slot. The phone's sticky proxy stays unless asked otherwise.
-- Atomic because a slot without a session, or a session without its record, would never be freed.
-- KEYS[1] session hash  KEYS[2] all sessions  KEYS[3] active sessions  KEYS[4] temporary binding  KEYS[5] sessions of the phone
-- KEYS[6] sessions of its proxy  KEYS[7] QR  KEYS[8] session's events  KEYS[9] events  KEYS[10] commands  KEYS[11] provisioning list
-- KEYS[12] sticky  KEYS[13] outbox  KEYS[14] epoch that new sessions begin with  KEYS[15] holds hash  KEYS[16] last proxy of this id
-- KEYS[17] stored credentials
-- ARGV[1] session id  ARGV[2] 'forget' = the sticky binding too, else ''  ARGV[3] proxy as seen  ARGV[4] phone as seen
-- returns {'removed'} | {'unknown'} | {'changed'} | {'in_flight', message id}
local SESSION, ALL, ACTIVE, TEMPORARY, OF_PHONE, OF_PROXY, QR, HISTORY, EVENTS, COMMANDS, PROVISIONING, STICKY, OUTBOX, EPOCH_FLOOR, HOLDS, LAST_PROXY, CREDENTIALS = unpack(KEYS)
local id, forget, seen_proxy, seen_phone = unpack(ARGV)
local proxy, phone, epoch = unpack(redis.call('HMGET', SESSION, 'proxy', 'phone', 'epoch'))
if not proxy then return { 'unknown' } end
if proxy ~= seen_proxy or phone ~= seen_phone then return { 'changed' } end -- guard: remove_seen
local waiting = redis.call('LINDEX', OUTBOX, 0)
if waiting then return { 'in_flight', waiting } end -- guard: outbox_empty
-- A session that is created under this id later must fence this one's workers: their epochs stay in the past.
local floor = tonumber(redis.call('GET', EPOCH_FLOOR) or 0)
if tonumber(epoch) > floor then redis.call('SET', EPOCH_FLOOR, epoch) end -- guard: epoch_floor
for _, members in ipairs({ ALL, ACTIVE, OF_PHONE, OF_PROXY }) do redis.call('SREM', members, id) end
redis.call('LREM', PROVISIONING, 0, id)
redis.call('HDEL', HOLDS, 'session:' .. id)
redis.call('DEL', SESSION, TEMPORARY, QR, HISTORY, COMMANDS, CREDENTIALS)
if proxy ~= '' then redis.call('SET', LAST_PROXY, proxy) end -- guard: last_proxy
if forget == 'forget' then redis.call('DEL', STICKY, LAST_PROXY) end
emit(EVENTS, 'session.removed', now_ms(), 'session', id, 'phone', phone)
return { 'removed' }
