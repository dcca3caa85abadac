"""Redis and nothing but Redis: `keys` names every key, and every transition is one Lua script with a typed wrapper."""
