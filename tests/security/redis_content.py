"""What Redis holds, to be compared before and after an attack."""

from collections.abc import Callable
from typing import Any


async def content(redis: Any, wanted: Callable[[str], bool] = lambda _: True) -> dict[str, Any]:
    """Return the value of every key whose name is wanted."""
    names = sorted([str(name) async for name in redis.scan_iter()])
    return {name: await _value(redis, name) for name in names if wanted(name)}


async def _value(redis: Any, name: str) -> Any:
    match str(await redis.type(name)):
        case "string":
            return await redis.get(name)
        case "hash":
            return await redis.hgetall(name)
        case "set":
            return await redis.smembers(name)
        case "zset":
            return await redis.zrange(name, 0, -1, withscores=True)
        case "list":
            return await redis.lrange(name, 0, -1)
        case _:
            return await redis.xrange(name)
