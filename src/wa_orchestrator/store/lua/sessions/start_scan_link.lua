-- start_scan_link: count that the person with a one-time link asks for a code; the first time shortens the link's life.
-- Atomic because two presses must count as two, and a link that was withdrawn or replaced meanwhile must not come back.
-- KEYS[1] link hash  ARGV[1] digest of its secret  ARGV[2] window ms  ARGV[3] most presses  ARGV[4] what is counted: tries | pairing_codes
-- returns {'started', presses} | {'spent'} | {'unknown'}
local LINK = KEYS[1]
local digest, window, most, counted = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
if redis.call('HGET', LINK, 'digest') ~= digest then return { 'unknown' } end -- guard: scan_link_secret
if tonumber(redis.call('HGET', LINK, counted) or 0) >= most then return { 'spent' } end -- guard: scan_link_tries
local presses = redis.call('HINCRBY', LINK, counted, 1)
if counted == 'tries' and presses == 1 then
  local now = now_ms()
  redis.call('HSET', LINK, 'started_at', now, 'expires_at', now + window)
  redis.call('PEXPIRE', LINK, window) -- guard: scan_link_window
end
return { 'started', presses }
