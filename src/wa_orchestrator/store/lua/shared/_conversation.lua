-- Which session has the conversation with a recipient: fixed by the first message that is accepted for them or comes from
-- them; moved when they write to another phone of ours, and when another sender is chosen because its own is gone.

local SENDER_KEPT_S = 7776000

-- set_sender: the conversation belongs to this session from now on.
local function set_sender(affinity, session)
  redis.call('SET', affinity, session, 'EX', SENDER_KEPT_S)
end

-- keep_sender: a message was exchanged with the recipient, so it is remembered longer who has the conversation. It is given to
-- nobody: when the message was accepted that was decided, and one of a client that reaches some sessions only decides nothing for others.
local function keep_sender(affinity)
  redis.call('EXPIRE', affinity, SENDER_KEPT_S)
end
