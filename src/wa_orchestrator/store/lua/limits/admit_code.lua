-- admit_code: admit an attempt at a second factor, or return how long the next one has to wait.
-- Atomic because tries come at the same moment: each must see those before it, also those that are still being checked.
-- KEYS[1] tries  counter  KEYS[2] pause  string  ARGV[1] tries without a pause  ARGV[2] longest pause ms  ARGV[3] count ms
-- returns {'admitted'} | {'wait', ms}
local TRIES, PAUSE = KEYS[1], KEYS[2]
local free, longest_ms, count_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local left_ms = redis.call('PTTL', PAUSE)
if left_ms > 0 then return { 'wait', left_ms } end -- guard: code_pause
local tries = redis.call('INCR', TRIES)
if tries == 1 then redis.call('PEXPIRE', TRIES, count_ms) end
if tries >= free then redis.call('SET', PAUSE, '1', 'PX', math.min(longest_ms, 1000 * 2 ^ math.min(tries - free, 30))) end
return { 'admitted' }
