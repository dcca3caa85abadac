-- wake_phones: make these phones (a JSON array) due now, unless they are due earlier.
local function wake_phones(due, phones, now)
  for _, phone in ipairs(cjson.decode(phones)) do
    redis.call('ZADD', due, 'LT', now, phone)
    redis.call('PUBLISH', 'dispatch:wake', phone)
  end
end
