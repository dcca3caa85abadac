-- new_contact_limit: which limit of WhatsApp keeps a phone from writing to new contacts, and its end: of two the one that ends
-- last; nil when there is none.
local function new_contact_limit(lock_until, cap_until, now)
  local limit, ends = 'REACHOUT_LOCKED', tonumber(lock_until or 0)
  if tonumber(cap_until or 0) > ends then limit, ends = 'NEW_CHAT_CAP', tonumber(cap_until) end -- guard: cap
  if ends > now then return limit, ends end
end

-- is_new_contact: whether such a limit holds for a recipient, as they are known now and as the message has it; it is about people who
-- know us under neither name, not about groups.
local function is_new_contact(contacts, name, to)
  if name ~= to and redis.call('SISMEMBER', contacts, name) == 1 then return false end -- guard: known_by_name
  return to:sub(-5) ~= '@g.us' and redis.call('SISMEMBER', contacts, to) == 0
end
