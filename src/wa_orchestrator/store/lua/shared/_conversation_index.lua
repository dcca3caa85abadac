-- Conversations: one hash per account and contact, under the session that had it first (`store/conversations/conversation_homes.py`). Texts are not in it: the last message is named, and read where it is stored.
-- The index is one zset in the order of its members, `<session>:<state> <order> <session> <contact>`, and the same without the first session.
-- State and order follow from the hash alone: waiting (somebody wrote and was not read; by since when), open or closed (by the last message).
-- A group never waits: most of what is written there is not meant for us; nor does somebody who has opted out, whom nobody may
-- answer. store/conversations/conversation_index.py reads it.

local function conversation_members(conversation)
  local session_id, contact, unread, since, last, closed, is_group, opted_out =
    unpack(redis.call('HMGET', conversation, 'session', 'contact', 'unread', 'waiting_since', 'last_at', 'closed', 'group', 'opted_out'))
  if not session_id then return end
  local state, order = 'open', last
  if closed == '1' then state = 'closed' end
  if opted_out == '1' then unread = 0 end -- guard: opted_out_waits
  if tonumber(unread or 0) > 0 and is_group ~= '1' then state, order = 'waiting', since end
  local tail = string.format(':%s %013.0f %s %s', state, tonumber(order or 0), session_id, contact)
  return tail, session_id .. tail
end

-- leave_index, enter_index: around every change of a conversation's hash.
local function leave_index(index, conversation)
  local of_all, of_session = conversation_members(conversation)
  if of_all then redis.call('ZREM', index, of_all, of_session) end
end

local function enter_index(index, conversation)
  local of_all, of_session = conversation_members(conversation)
  redis.call('ZADD', index, 0, of_all, 0, of_session)
end

-- set_name: what the contact is called, and how that is searched; '' leaves what is known.
local function set_name(names, conversation, name, folded)
  local contact, session_id, old = unpack(redis.call('HMGET', conversation, 'contact', 'session', 'folded'))
  if name ~= '' then
    redis.call('ZREM', names, contact .. ' ' .. session_id .. ' ' .. (old or ''))
    redis.call('HSET', conversation, 'name', name, 'folded', folded)
    old = folded
  end
  redis.call('ZADD', names, 0, contact .. ' ' .. session_id .. ' ' .. (old or ''))
end

-- note_device: another session of the account took part in a conversation; what it reported and sent is stored under its own name.
local function note_device(conversation, session_id)
  local home, known = unpack(redis.call('HMGET', conversation, 'session', 'devices'))
  local devices = cjson.decode(known and known ~= '' and known or '[]')
  if session_id == home then return end
  for _, each in ipairs(devices) do
    if each == session_id then return end -- guard: device_once
  end
  devices[#devices + 1] = session_id
  redis.call('HSET', conversation, 'devices', cjson.encode(devices))
end

-- forget: take a conversation out of everything but its own hash.
local function forget(index, activity, names, conversation)
  leave_index(index, conversation)
  local contact, session_id, folded = unpack(redis.call('HMGET', conversation, 'contact', 'session', 'folded'))
  if not contact then return end
  redis.call('ZREM', activity, session_id .. ' ' .. contact)
  redis.call('ZREM', names, contact .. ' ' .. session_id .. ' ' .. (folded or ''))
end

-- move_from_lid: a contact who was known by LID alone has a phone now; both conversations become one.
local function move_from_lid(index, activity, names, conversation, thread, by_lid, lid_thread, contact)
  if by_lid == conversation or redis.call('EXISTS', by_lid) == 0 then return end
  forget(index, activity, names, by_lid)
  if redis.call('EXISTS', conversation) == 1 then
    local unread, since, notes, noted_at, noted_by = unpack(redis.call('HMGET', by_lid, 'unread', 'waiting_since', 'notes', 'noted_at', 'noted_by'))
    local known_since, known_notes, known_answer = unpack(redis.call('HMGET', conversation, 'waiting_since', 'notes', 'answer'))
    redis.call('HINCRBY', conversation, 'unread', tonumber(unread or 0))
    if tonumber(since or 0) > 0 and (tonumber(known_since or 0) == 0 or tonumber(since) < tonumber(known_since)) then
      redis.call('HSET', conversation, 'waiting_since', since)
    end
    if (known_notes or '') == '' and (notes or '') ~= '' then
      redis.call('HSET', conversation, 'notes', notes, 'noted_at', noted_at or 0, 'noted_by', noted_by or '')
    end
    local answer, answered_unread, answered_since, first, devices =
      unpack(redis.call('HMGET', by_lid, 'answer', 'answered_unread', 'answered_since', 'session', 'devices'))
    if (known_answer or '') == '' and (answer or '') ~= '' then -- guard: answer_of_lid
      redis.call('HSET', conversation, 'answer', answer, 'answered_unread', answered_unread, 'answered_since', answered_since)
    end
    note_device(conversation, first)
    for _, each in ipairs(cjson.decode(devices and devices ~= '' and devices or '[]')) do note_device(conversation, each) end -- guard: devices_of_lid
    redis.call('DEL', by_lid)
  else
    redis.call('RENAME', by_lid, conversation)
    redis.call('HSET', conversation, 'contact', contact)
  end
  redis.call('ZUNIONSTORE', thread, 2, thread, lid_thread, 'AGGREGATE', 'MAX')
  redis.call('DEL', lid_thread)
end
