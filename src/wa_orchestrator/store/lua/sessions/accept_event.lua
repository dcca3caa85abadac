-- uses: _worker_event
-- accept_event: accept a worker's event that changes nothing but fields of its session: a ping, or one that is ignored.
-- Atomic because the worker may be replaced, or the session removed, at the same moment, and an event may arrive twice at once.
-- KEYS[1] session hash  KEYS[2] mark of the event
-- ARGV[1] epoch  ARGV[2] digest  ARGV[3] ms to keep the mark  ARGV[4] field that gets the present time ('' = none)  ARGV[5…] fields and values
-- returns {'accepted'} | {'fenced', epoch} | {'in_progress'} | {'repeated'}
local SESSION, HEARD = KEYS[1], KEYS[2]
local epoch, digest, keep_ms, stamp = unpack(ARGV, 1, 4)
local refused = refused_event(SESSION, HEARD, epoch)
if refused then return refused end
if stamp ~= '' then redis.call('HSET', SESSION, stamp, now_ms(), unpack(ARGV, 5)) end
note_event(HEARD, digest, keep_ms)
return { 'accepted' }
