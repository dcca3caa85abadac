-- uses: _event
-- end_outage: record that our own connection works again.
-- Atomic because several servers may notice it, and the event is appended once.
-- KEYS[1] outage hash  KEYS[2] events
-- returns {'ended'} | {'none'}
local OUTAGE, EVENTS = KEYS[1], KEYS[2]
local failing, healthy = unpack(redis.call('HMGET', OUTAGE, 'failing', 'healthy'))
if not failing then return { 'none' } end -- guard: outage_ended
redis.call('DEL', OUTAGE)
emit(EVENTS, 'proxy.outage_ended', now_ms(), 'failing', failing, 'healthy', healthy)
return { 'ended' }
