-- Loaded before every script: the clock, the layout of keys that message scripts share, and the one way to change a status.
-- The clock is Redis' own TIME, because leases and pace must not depend on which server asks.
local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
