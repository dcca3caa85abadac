-- uses: _conversation
-- uses: _conversation_index
-- uses: _event
-- uses: _worker_event
-- receive_message: store a message that a contact sent to one of our phones, or that its owner sent from another device, once;
-- remember the contact, bring the conversation up to date and append the event. What the owner sent counts for the phone's pace.
-- Each linked device of an account reports the same message: every session stores it, the first one that reports it emits the event.
-- Atomic because a worker repeats its events until they are accepted, and a message must be reported once.
-- KEYS[1] incoming hash  KEYS[2] contacts set  KEYS[3] affinity string of the contact's phone, or LID  KEYS[4] LID of the phone  KEYS[5] phone of the LID  KEYS[6] events stream
-- KEYS[7] zset of incoming messages  KEYS[8] opt-outs hash  KEYS[9] set-aside zset of our phone  KEYS[10] session hash
-- KEYS[11] zset of what the phone has sent  KEYS[12] zset of files to fetch  KEYS[13] conversation hash  KEYS[14] its thread zset
-- KEYS[15] conversation hash by LID  KEYS[16] its thread zset  KEYS[17] index of conversations  KEYS[18] their activity zset
-- KEYS[19] their names zset  KEYS[20] zset of what changes the target  KEYS[21] zset of strangers written to who have not answered
-- KEYS[22] of those who have  KEYS[23] pace hash  KEYS[24] which session of our phone reported the message first
-- KEYS[25] sessions of our phone  KEYS[26] affinity string of the contact's LID  KEYS[27] mark of the event (missing = no event)
-- ARGV[1] session id  ARGV[2] our phone  ARGV[3] contact's phone ('' = unknown)  ARGV[4] contact's LID ('' = unknown)  ARGV[5] ms to keep it
-- ARGV[6] WhatsApp's id  ARGV[7] kind  ARGV[8] group ('' = a private chat)  ARGV[9] opts_out | '': whether it is a stop word
-- ARGV[10] the event's epoch  ARGV[11] its digest  ARGV[12] ms to keep its mark
-- ARGV[13] type of the stream event  ARGV[14] in | out (the owner sent it)  ARGV[15] when it counts for the pace ms, 0 = never
-- ARGV[16] our id of it if its file is to be fetched, '' otherwise
-- ARGV[17] our id of it  ARGV[18] contact or group of the conversation ('' = unknown)  ARGV[19] the contact's name ('' = unknown)
-- ARGV[20] the same as it is searched  ARGV[21] amends | '': it changes an earlier message
-- ARGV[22] session under which the account keeps the conversation
-- ARGV[23…] fields and values of the message (its text among them, which the stream does not get)
-- returns {'received', rest} | {'copied', rest} (another session of the phone reported it before) | {'already', rest}
--    | {'fenced', epoch} | {'in_progress'} | {'repeated'}
--   rest: '' | 'rest': the contact opts out, or did as a LID, or messages to somebody are set aside, or a worker's word alone would
--   take a conversation from another session or change which phone and LID are one person; the caller goes on
local INCOMING, CONTACTS, AFFINITY, LID_OF_PHONE, PHONE_OF_LID, EVENTS, RECENT, OPT_OUTS, ASIDE, SESSION, SENT, FILES = unpack(KEYS, 1, 12)
local CONVERSATION, THREAD, BY_LID, LID_THREAD, INDEX, ACTIVITY, NAMES, CHANGES = unpack(KEYS, 13, 20)
local UNANSWERED, ANSWERED, PACE, FIRST_REPORT, SESSIONS_OF_PHONE, AFFINITY_OF_LID, HEARD = unpack(KEYS, 21, 27)
local session_id, phone, contact_phone, contact_lid, keep_ms, whatsapp_id, kind, group, opts_out = unpack(ARGV, 1, 9)
local incoming_type, direction, counts_at, file = unpack(ARGV, 13, 16)
local id, chat, name, folded, amends, home = unpack(ARGV, 17, 22)
local refused = HEARD and refused_event(SESSION, HEARD, ARGV[10])
if refused then return refused end
local now = now_ms()
local is_repeated = redis.call('EXISTS', INCOMING) == 1
local known_phone, known_lid = redis.call('GET', PHONE_OF_LID) or '', redis.call('GET', LID_OF_PHONE) or ''
local has_both = contact_phone ~= '' and contact_lid ~= ''
local is_link_news = has_both and (is_repeated or known_phone ~= contact_phone or known_lid ~= contact_lid)
local partner = contact_phone
-- A person who hides the phone is known by the LID, as a recipient is.
if partner == '' and contact_lid ~= '' then partner = 'lid:' .. contact_lid end -- guard: hidden_phone
-- Who writes in a group has no chat with us: to that person we are still a new contact.
if group ~= '' then partner = '' end -- guard: private_chat
-- That the owner wrote to somebody does not make us known to them.
local writer = partner
if direction == 'out' then writer = '' end -- guard: known_by_writing

-- must_carry_opt_out: whether the contact opted out as a LID, and the list does not have the phone yet.
local function must_carry_opt_out()
  local by_lid = 'lid:' .. contact_lid
  local listed = redis.call('HMGET', OPT_OUTS, by_lid, phone .. ' ' .. by_lid, contact_phone, phone .. ' ' .. contact_phone)
  local lid_everywhere, lid_here, phone_everywhere, phone_here = unpack(listed, 1, 4)
  -- Whether one for this phone alone becomes one for all is asked only of what they write to us.
  return (lid_everywhere or lid_here) and not phone_everywhere and (not phone_here or writer ~= '')
end

local is_aside = redis.call('EXISTS', ASIDE) == 1
local rest = opts_out ~= '' and 'rest' or ''
if is_aside and (writer ~= '' or is_link_news) then rest = 'rest' end -- guard: aside_first
if has_both and must_carry_opt_out() then rest = 'rest' end -- guard: lid_opted_out

-- done: the reply, once the event is noted or begun. Last, so that an event whose script broke off comes again.
local function done(word)
  if HEARD then note_event(HEARD, ARGV[11], ARGV[12]) end
  if HEARD and rest ~= '' then begin_event(HEARD) end -- guard: rest_first
  return { word, rest }
end
local becomes_known = writer ~= ''
-- reopen_messages makes the contact known, with the messages that were set aside: what follows would overtake those.
if is_aside then becomes_known = false end -- guard: known_with_aside
if becomes_known then redis.call('SADD', CONTACTS, writer) end
if is_repeated then return done('already') end -- guard: receive_once
-- Of one message; more are the work of somebody who wants to fill our memory.
local MOST_CHANGES = 200

-- is_first_report: whether no other session of the phone has reported the message. A phone with one session needs no mark.
local function is_first_report()
  if phone == '' then return true end
  if redis.call('EXISTS', FIRST_REPORT) == 1 then return false end -- guard: first_report
  if redis.call('SCARD', SESSIONS_OF_PHONE) > 1 then redis.call('SET', FIRST_REPORT, session_id, 'PX', keep_ms) end
  return true
end

-- wants_no_more: whether the contact has opted out, by phone or LID, from any phone of ours or from this one; or does so now.
local function wants_no_more()
  local by_lid = 'lid:' .. contact_lid
  local listed = redis.call('HMGET', OPT_OUTS, contact_phone, phone .. ' ' .. contact_phone, by_lid, phone .. ' ' .. by_lid)
  return opts_out ~= '' or listed[1] or listed[2] or listed[3] or listed[4]
end

-- note_answer: if we wrote to this person first, that has its answer. Kept as long as answers are counted (domain/number_health.py).
local function note_answer()
  for _, who in ipairs({ contact_phone, 'lid:' .. contact_lid }) do
    local written_at = redis.call('ZSCORE', UNANSWERED, who)
    if written_at then -- guard: answered
      redis.call('ZREM', UNANSWERED, who)
      redis.call('ZADD', ANSWERED, written_at, who)
      redis.call('ZREMRANGEBYSCORE', ANSWERED, '-inf', now - 2419200000)
      redis.call('HDEL', PACE, 'strangers')
    end
  end
end

-- note_in_conversation: it is the last message of its conversation. What the owner sent from the phone answers all before it.
local function note_in_conversation()
  leave_index(INDEX, CONVERSATION)
  if group == '' and contact_phone ~= '' then
    move_from_lid(INDEX, ACTIVITY, NAMES, CONVERSATION, THREAD, BY_LID, LID_THREAD, chat)
  end
  redis.call('HSETNX', CONVERSATION, 'created_at', now)
  redis.call('HSET', CONVERSATION, 'session', home, 'our_phone', phone, 'contact', chat, 'last_at', now, 'last_message', id)
  note_device(CONVERSATION, session_id)
  if group ~= '' then
    redis.call('HSET', CONVERSATION, 'group', 1)
  else
    if contact_phone ~= '' then redis.call('HSET', CONVERSATION, 'phone', contact_phone) end
    if contact_lid ~= '' then redis.call('HSET', CONVERSATION, 'lid', contact_lid) end
    redis.call('HSET', CONVERSATION, 'opted_out', wants_no_more() and '1' or '')
  end
  if direction == 'out' then -- guard: answered_elsewhere
    redis.call('HSET', CONVERSATION, 'unread', 0, 'waiting_since', 0, 'answer', '')
  else
    if redis.call('HINCRBY', CONVERSATION, 'unread', 1) == 1 then redis.call('HSET', CONVERSATION, 'waiting_since', now) end
    redis.call('HSET', CONVERSATION, 'last_in', whatsapp_id, 'last_in_at', now, 'closed', '')
  end
  set_name(NAMES, CONVERSATION, name, folded)
  enter_index(INDEX, CONVERSATION)
  redis.call('ZADD', ACTIVITY, now, home .. ' ' .. chat)
  redis.call('ZADD', THREAD, now, id)
  redis.call('PEXPIRE', THREAD, keep_ms)
end
local is_first = is_first_report()
redis.call('HSET', INCOMING, 'whatsapp_id', whatsapp_id, 'kind', kind, 'contact_phone', contact_phone, 'contact_lid', contact_lid, 'received_at', now,
  'group', group, 'direction', direction, unpack(ARGV, 23))
if not is_first then redis.call('HSET', INCOMING, 'copied', '1') end -- guard: copied_is_marked
if home ~= session_id then redis.call('HSET', INCOMING, 'home', home) end -- guard: home_is_noted
redis.call('PEXPIRE', INCOMING, keep_ms)
redis.call('ZADD', RECENT, now, session_id .. ' ' .. whatsapp_id)
if has_both and known_phone ~= '' and known_phone ~= contact_phone then -- guard: lid_of_others
  rest = 'rest'
elseif has_both and known_lid ~= '' and known_lid ~= contact_lid then -- guard: phone_of_others
  rest = 'rest'
elseif has_both then
  redis.call('SET', LID_OF_PHONE, contact_lid, 'EX', 34560000)
  redis.call('SET', PHONE_OF_LID, contact_phone, 'EX', 34560000)
  local sender = redis.call('GET', AFFINITY_OF_LID)
  if sender and redis.call('EXISTS', AFFINITY) == 0 then set_sender(AFFINITY, sender) end -- guard: conversation_of_lid
elseif contact_lid ~= '' then
  redis.call('SET', PHONE_OF_LID, '', 'NX', 'EX', 34560000) -- its digits are no phone
end
if partner ~= '' then
  local sender = redis.call('GET', AFFINITY)
  if sender and sender ~= session_id then -- guard: conversation_of_others
    rest = 'rest'
  else
    set_sender(AFFINITY, session_id)
  end
end
if writer ~= '' and opts_out == '' then note_answer() end -- guard: stop_is_no_answer
if tonumber(counts_at) > 0 then -- guard: elsewhere_counts
  redis.call('ZREMRANGEBYSCORE', SENT, '-inf', now - 172800000)
  redis.call('ZADD', SENT, math.min(now, tonumber(counts_at)), 'elsewhere#' .. whatsapp_id)
end
if file ~= '' then -- guard: file_is_due
  redis.call('ZADD', FILES, now, file)
  redis.call('ZREMRANGEBYRANK', FILES, 0, -10001)
end
if amends ~= '' then -- guard: amends_nothing_new
  redis.call('ZADD', CHANGES, now, id)
  redis.call('ZREMRANGEBYRANK', CHANGES, 0, -MOST_CHANGES - 1)
  redis.call('PEXPIRE', CHANGES, keep_ms)
elseif chat ~= '' and is_first then -- guard: one_conversation
  note_in_conversation()
end
if not is_first then return done('copied') end
emit(EVENTS, incoming_type, now, 'session', session_id, 'phone', phone,
  'whatsapp_id', whatsapp_id, 'kind', kind, 'contact_phone', contact_phone, 'contact_lid', contact_lid, 'group', group, 'home', home ~= session_id and home or '')
return done('received')
