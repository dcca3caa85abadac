-- spend: the generic cell rate algorithm; one key may make a call every `gap` ms, and `burst` of them at once.
-- Returns the theoretical arrival time after `cost` more calls, or nil and how long to wait.
local function spend(arrival, now, gap, burst, cost)
  -- Further ahead than a whole burst: the clock was set back. Nobody waits for as long as that step.
  if arrival > now + gap * burst + 1 then arrival = now end -- guard: rate_ahead
  local after = math.max(arrival, now) + gap * cost
  local allow_at = after - gap * burst
  if allow_at > now then return nil, math.ceil(allow_at - now) end -- guard: rate
  return after
end

-- set_arrival: store the theoretical arrival time; the key expires when it has passed.
local function set_arrival(key, arrival, now)
  redis.call('SET', key, string.format('%.3f', arrival), 'PX', math.ceil(arrival - now))
end
