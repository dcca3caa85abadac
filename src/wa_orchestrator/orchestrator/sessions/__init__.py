"""The life of a session: provisioning, state transitions, phone binding, credentials, removal."""
