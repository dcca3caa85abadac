-- uses: _event
-- add_opt_out: somebody does not want to be written to any more.
-- Atomic because the first wish counts, and is reported once.
-- KEYS[1] opt-outs hash  KEYS[2] events stream
-- ARGV[1] recipient  ARGV[2] word ('' = by an operator)  ARGV[3] via: reply | api  ARGV[4] session id  ARGV[5] our phone
-- returns {'added'} | {'already'}
local now = now_ms()
local record = cjson.encode({ at_ms = now, word = ARGV[2], via = ARGV[3] })
if redis.call('HSETNX', KEYS[1], ARGV[1], record) == 0 then return { 'already' } end -- guard: opt_out_once
emit(KEYS[2], 'contact.opted_out', now, 'session', ARGV[4], 'phone', ARGV[5], 'contact_phone', ARGV[1],
  'word', ARGV[2], 'via', ARGV[3])
return { 'added' }
