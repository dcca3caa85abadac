"""The error of a Redis that does not answer or rejects a command; no other room imports the client."""

from redis.exceptions import NoScriptError, RedisError

__all__ = ["NoScriptError", "RedisError"]
