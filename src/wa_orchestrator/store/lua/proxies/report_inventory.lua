-- uses: _event
-- report_inventory: record whether slots or profiles run low, and append one event when that begins.
-- Atomic because several servers may notice it, and because a shortage that is recorded must have its event.
-- KEYS[1] low-inventory flag  KEYS[2] events  ARGV[1] details as JSON ('' = there are enough)  ARGV[2] type of the event
-- returns {'told'} | {'known'} | {'enough'}
local LOW, EVENTS = KEYS[1], KEYS[2]
local details, inventory_type = ARGV[1], ARGV[2]
if details == '' then redis.call('DEL', LOW) return { 'enough' } end -- guard: inventory_enough
if redis.call('EXISTS', LOW) == 1 then return { 'known' } end -- guard: inventory_known
local now = now_ms()
redis.call('SET', LOW, now)
emit(EVENTS, inventory_type, now, 'details', details)
return { 'told' }
