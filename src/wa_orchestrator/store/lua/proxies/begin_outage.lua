-- uses: _event
-- begin_outage: record that most proxies fail at once, so that our own connection is the cause, and append the event once.
-- Atomic because several servers may notice it, and because an outage that is recorded must have its event.
-- KEYS[1] outage hash  KEYS[2] events  ARGV[1] how many proxies fail  ARGV[2] how many were healthy
-- returns {'begun'} | {'known'}
local OUTAGE, EVENTS = KEYS[1], KEYS[2]
local failing, healthy = ARGV[1], ARGV[2]
if redis.call('EXISTS', OUTAGE) == 1 then return { 'known' } end -- guard: outage_known
local now = now_ms()
redis.call('HSET', OUTAGE, 'began_at', now, 'failing', failing, 'healthy', healthy)
emit(EVENTS, 'proxy.outage', now, 'failing', failing, 'healthy', healthy)
return { 'begun' }
