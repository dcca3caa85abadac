-- now_ms: the time of Redis, in front of every script. Leases and pace must not depend on the clock of the server that asks.
local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
