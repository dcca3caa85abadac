-- steps: rate
-- steps: accept
-- admit: count a call against its key's rate and, if it may call, take its message in.
-- Atomic because a call that is refused for its rate must leave nothing behind; and it is one round trip instead of two.
-- KEYS[1] rate's key  KEYS[2…] the keys of accept
-- ARGV[1…3] the arguments of rate  ARGV[4…] the arguments of accept
-- returns {'limited', retry after ms} | what accept returns
local verdict = rate({ KEYS[1] }, { ARGV[1], ARGV[2], ARGV[3] })
if verdict[1] == 'limited' then return verdict end -- guard: admitted
return accept({ unpack(KEYS, 2) }, { unpack(ARGV, 4) })
