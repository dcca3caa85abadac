"""A fleet written straight into Redis: connected sessions, four on a proxy, each with a day behind it."""

import time
from typing import Any

from redis.asyncio import Redis

PER_PROXY = 4
_SLICE = 200


def phone_of(number: int) -> str:
    return f"97250{number:07d}"


async def fill(redis: Redis, sessions: int) -> None:
    """Write so many sessions."""
    now = int(time.time() * 1000)
    for first in range(0, sessions, _SLICE):
        pipe = redis.pipeline(transaction=False)
        for number in range(first, min(first + _SLICE, sessions)):
            name, proxy = f"worker_{number}", f"px_{number // PER_PROXY}"
            record: dict[Any, Any] = {
                "id": name, "status": "connected", "reason": "", "phone": phone_of(number), "proxy": proxy,
                "label": f"Shop {number:04d}", "epoch": 1, "version": 3, "wanted": "running", "created_at": now,
                "changed_at": now, "connected_at": now, "last_ping_at": now, "ping_rss_bytes": 17_000_000,
                "ping_socket": "open", "ping_lag_ms": 2, "first_connected_at": now - 40 * 86_400_000,
                "jid": f"{phone_of(number)}:1@s.whatsapp.net", "fingerprint": "f" * 40, "started_at": now,
            }  # fmt: skip
            pipe.hset(f"session:{name}", mapping=record)
            pipe.sadd("sessions:all", name)
            pipe.sadd("sessions:active", name)
            pipe.sadd(f"phone:sessions:{phone_of(number)}", name)
            pipe.zadd(f"phone:sent:{phone_of(number)}", {f"m{at}#1": now - at * 60_000 for at in range(20)})
            pipe.hset(f"stats:{name}:{time.strftime('%Y%m%d', time.gmtime())}", mapping={"sent": 20, "delivered": 19})
            if number % PER_PROXY == 0:
                pipe.hset(f"proxy:{proxy}", mapping=_proxy(proxy, now))
                pipe.sadd("proxies:all", proxy)
                pipe.sadd("proxies:available", proxy)
            pipe.sadd(f"proxy:sessions:{proxy}", name)
        await pipe.execute()


def _proxy(name: str, now: int) -> dict[Any, Any]:
    address = f"socks5h://user:fake@{name}.example.com:1080"
    return {
        "id": name, "url": address, "masked": address.replace("fake", "***"), "origin": "operator", "status": "OK",
        "version": 1, "added_at": now, "changed_at": now, "checked_at": now, "passed_at": now, "latency_ms": 120,
    }  # fmt: skip
