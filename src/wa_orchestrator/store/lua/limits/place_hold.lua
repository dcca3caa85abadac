-- uses: _event
-- uses: _deadline
-- uses: _wake
-- place_hold: pause everything, a group, a session or a phone, wake its phones (the hold may end earlier than one before) and append the event. Expired holds are deleted on the way, so that they do not pile up.
-- Atomic because a second ban signal must not shorten the first one's hold, and the event is written once.
-- KEYS[1] holds hash  KEYS[2] events stream  KEYS[3] due zset
-- ARGV[1] field  ARGV[2] until ms (9e15 = until lifted)  ARGV[3] record as JSON  ARGV[4] 'person' = always, 'signal' = only if it lasts longer
-- ARGV[5] phones to wake as a JSON array  ARGV[6] the record that is to be replaced ('none' = there is none, '' = whichever)
-- ARGV[7…] further fields and values of the event
-- returns {'held'} | {'kept'} | {'changed'}: another hold is there
local HOLDS, EVENTS, DUE = KEYS[1], KEYS[2], KEYS[3]
local field, ends, record, by, expected = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[6]
if expected ~= '' and (redis.call('HGET', HOLDS, field) or 'none') ~= expected then return { 'changed' } end -- guard: replaced_hold
local now = now_ms()
local known = redis.call('HGETALL', HOLDS)
for index = 1, #known, 2 do
  local known_until = cjson.decode(known[index + 1]).until_ms
  if by == 'signal' and known[index] == field and known_until >= ends then return { 'kept' } end -- guard: longer_hold
  if known_until <= now then redis.call('HDEL', HOLDS, known[index]) end -- guard: hold_over
end
redis.call('HSET', HOLDS, field, record)
wake_phones(DUE, ARGV[5], now)
emit(EVENTS, 'hold.placed', now, 'until', deadline_text(ends), unpack(ARGV, 7))
return { 'held' }
