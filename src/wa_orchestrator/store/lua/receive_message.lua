-- uses: _event
-- receive_message: somebody wrote to one of our phones. The message is kept once, the contact is known from now on, and the news goes out.
-- Atomic because a worker repeats its events until they are accepted, and nobody should hear of one message twice.
-- KEYS[1] incoming hash  KEYS[2] contacts set  KEYS[3] affinity string  KEYS[4] LID of the phone  KEYS[5] phone of the LID  KEYS[6] events stream
-- ARGV[1] session id  ARGV[2] our phone  ARGV[3] contact's phone ('' = unknown)  ARGV[4] contact's LID ('' = unknown)  ARGV[5] ms to keep it
-- ARGV[6] WhatsApp's id  ARGV[7] kind  ARGV[8…] fields and values of the message (its text among them: the stream does not get these)
-- returns {'received'} | {'already'}
if redis.call('EXISTS', KEYS[1]) == 1 then return { 'already' } end -- guard: receive_once
local now = now_ms()
redis.call('HSET', KEYS[1], 'whatsapp_id', ARGV[6], 'kind', ARGV[7], 'contact_phone', ARGV[3], 'contact_lid', ARGV[4], 'received_at', now,
  unpack(ARGV, 8))
redis.call('PEXPIRE', KEYS[1], ARGV[5])
if ARGV[3] ~= '' then
  redis.call('SADD', KEYS[2], ARGV[3])
  redis.call('SET', KEYS[3], ARGV[1], 'EX', 7776000)
end
if ARGV[3] ~= '' and ARGV[4] ~= '' then
  redis.call('SET', KEYS[4], ARGV[4], 'EX', 34560000)
  redis.call('SET', KEYS[5], ARGV[3], 'EX', 34560000)
end
emit(KEYS[6], 'message.received', now, 'session', ARGV[1], 'phone', ARGV[2],
  'whatsapp_id', ARGV[6], 'kind', ARGV[7], 'contact_phone', ARGV[3], 'contact_lid', ARGV[4])
return { 'received' }
