-- The session that has the conversation with a recipient: fixed by the first message that is accepted for them or comes from
-- them; moved when they write to another phone of ours, and when another sender is chosen because its own is gone.

local SENDER_KEPT_S = 7776000

-- set_sender: the conversation belongs to this session from now on.
local function set_sender(affinity, session)
  redis.call('SET', affinity, session, 'EX', SENDER_KEPT_S)
end

-- keep_sender: a message was exchanged with the recipient, so the record of who has the conversation lives longer. It does not change:
-- that was decided when the message was accepted, and a client limited to some sessions must not decide for others.
local function keep_sender(affinity)
  redis.call('EXPIRE', affinity, SENDER_KEPT_S)
end
