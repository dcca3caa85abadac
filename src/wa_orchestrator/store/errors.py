"""The error of a Redis that does not answer or rejects a command; no other room imports the client."""

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

__all__ = ["NoScriptError", "RedisConnectionError", "RedisError", "RedisTimeoutError"]
