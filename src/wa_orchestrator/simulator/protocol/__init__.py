"""WhatsApp's wire protocol: Noise, binary XML, protobuf, Signal."""
