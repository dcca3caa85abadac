-- new_contact_limit: which limit of WhatsApp keeps a phone from writing to new contacts, and its end: of two the one that ends
-- last; nil when there is none.
local function new_contact_limit(lock_until, cap_until, now)
  local limit, ends = 'REACHOUT_LOCKED', tonumber(lock_until or 0)
  if tonumber(cap_until or 0) > ends then limit, ends = 'NEW_CHAT_CAP', tonumber(cap_until) end -- guard: cap
  if ends > now then return limit, ends end
end

-- is_new_contact: whether such a limit holds for a recipient, by the name that the message has and by the other one (the same for
-- none); it is about people who know us under neither name, not about groups.
local function is_new_contact(contacts, other_name, to)
  if other_name ~= to and redis.call('SISMEMBER', contacts, other_name) == 1 then return false end -- guard: known_by_name
  return to:sub(-5) ~= '@g.us' and redis.call('SISMEMBER', contacts, to) == 0
end
