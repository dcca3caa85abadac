-- read_state: read everything that a backup holds, except history, in one step.
-- Atomic because a message that moves between two reads would be in both places, or in none. For the same reason this script alone finds
-- the keys that it reads: one that came after a list of them was made would be missing. History (ended messages, streams) is left out,
-- so that Redis is blocked for a short time only.
-- ARGV[1] number of prefixes to leave out, then these  next: number of prefixes of history, then these
-- next: number of prefixes of open messages, then these  last two: prefixes of a message and of its timeline
-- returns {'state', line, …}; a line is JSON: [key, type, expires at ms or 0, [value, …]]; of a stream the value is its last entry's id
local at = 1
local function take_list()
  local list = {}
  for index = 1, tonumber(ARGV[at]) do list[index] = ARGV[at + index] end
  at = at + 1 + #list
  return list
end
local left_out, history, waiting = take_list(), take_list(), take_list()
local message_prefixes = { ARGV[at], ARGV[at + 1] }
local READ = {
  string = function(key) return { redis.call('GET', key) } end,
  hash = function(key) return redis.call('HGETALL', key) end,
  list = function(key) return redis.call('LRANGE', key, 0, -1) end,
  set = function(key) return redis.call('SMEMBERS', key) end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
  stream = function(key) return { (redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1] or { '' })[1] } end,
}
local function begins_with(key, prefixes)
  for _, prefix in ipairs(prefixes) do
    if key:sub(1, #prefix) == prefix then return true end
  end
  return false
end
local reply, open = { 'state' }, {}
local function add(key)
  local kind = redis.call('TYPE', key).ok
  if not READ[kind] then return end
  local values = READ[kind](key)
  reply[#reply + 1] = cjson.encode({ key, kind, math.max(0, redis.call('PEXPIRETIME', key)), values })
  return kind, values
end
for _, key in ipairs(redis.call('KEYS', '*')) do
  if not begins_with(key, left_out) and not begins_with(key, history) then
    local kind, values = add(key)
    if begins_with(key, waiting) and values then
      for index = 1, #values, kind == 'zset' and 2 or 1 do open[values[index]] = true end
    end
  end
end
for id in pairs(open) do
  for _, prefix in ipairs(message_prefixes) do add(prefix .. id) end
end
return reply
