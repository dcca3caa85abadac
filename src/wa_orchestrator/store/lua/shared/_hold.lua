-- is_held: whether a hold of this field lasts.
local function is_held(holds, field, now)
  local hold = redis.call('HGET', holds, field)
  return hold and cjson.decode(hold).until_ms > now
end
