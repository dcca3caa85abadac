"""Cost of the fleet page with 500 sessions and 50 events a second: script time per batch, bytes, first paint.

Run as `python -m bench.dashboard`; the result goes to `bench/results/dashboard.json`.
"""

import asyncio
import statistics
import sys
import time
from typing import Any

from playwright.sync_api import Page
from tests.dashboard import serving
from tests.dashboard.sample_fleet import fill_large

from bench import _page
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts

SESSIONS = 500
EVENTS_PER_S = 50
SECONDS = 20
LIMITS = {
    "scriptMsPerEvent": 16.0,
    "scriptMsPerBatchLongest": 100.0,
    "kBytesPerS": 100.0,
    "firstPaintMs": 500.0,
    "nodes": 3000.0,
    "kBytesGzip": 15.0,
}


async def _fill(redis_url: str) -> None:
    redis = LineClient.from_url(redis_url, decode_responses=True)
    await fill_large(Scripts(redis), sessions=SESSIONS)
    await redis.aclose()


async def _events(redis_url: str) -> int:
    """Emit events at an even pace: session states and messages."""
    redis = LineClient.from_url(redis_url, decode_responses=True)
    begun, made = time.monotonic(), 0
    while time.monotonic() - begun < SECONDS:
        number = made * 7 % SESSIONS + 1
        session, at = f"worker_{number}", int(time.time() * 1000)
        if made % 5 == 0:
            status = "connected" if made % 10 else "disconnected"
            reason = "" if status == "connected" else "RECONNECTING"
            await redis.hset(keys.session(session), mapping={"status": status, "reason": reason, "changed_at": at})
            await redis.xadd(keys.EVENTS, {"type": f"session.{status}", "session": session, "reason": reason, "at": at})
        else:
            await redis.zadd(keys.sent(f"97250{number:07d}"), {f"b{made}#1": at})
            await redis.xadd(
                keys.EVENTS, {"type": "message.sent", "session": session, "message": f"m_{made:018x}", "at": at}
            )
        made += 1
        await asyncio.sleep(max(0.0, begun + made / EVENTS_PER_S - time.monotonic()))
    await redis.aclose()
    return made


def _first_paints(page: Page, address: str) -> list[float]:
    found = []
    for _ in range(5):
        page.goto(address + "/")
        page.wait_for_selector("body[data-live]")
        found.append(float(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")))
    return found


def _measure(page: Page, address: str, redis_url: str, thread: serving.Thread) -> dict[str, Any]:
    paints = _first_paints(page, address)
    html = page.evaluate("fetch('/').then(r => r.text()).then(t => t.length)")
    packed = page.evaluate("performance.getEntriesByType('navigation')[0].encodedBodySize")
    nodes = page.evaluate("document.querySelectorAll('*').length")
    page.wait_for_selector("body[data-live]")
    page.evaluate("Object.assign(window.spent, {events: 0, ms: 0, longest: 0, bytes: 0})")
    made = thread.do(_events(redis_url), timeout=SECONDS + 30)
    spent = page.evaluate("window.spent")
    return {
        "sessions": SESSIONS,
        "eventsPerS": round(made / SECONDS, 1),
        "batches": spent["events"],
        "scriptMsPerBatchMean": round(spent["ms"] / max(1, spent["events"]), 2),
        "scriptMsPerBatchLongest": round(spent["longest"], 2),
        "scriptMsPerEvent": round(spent["ms"] / made, 3),
        "kBytesPerS": round(spent["bytes"] / SECONDS / 1000, 1),
        "firstPaintMs": round(statistics.median(paints), 1),
        "firstPaintsMs": [round(each, 1) for each in paints],
        "pageBytes": html,
        "kBytesGzip": round(packed / 1000, 1),
        "nodes": nodes,
    }


if __name__ == "__main__":
    sys.exit(_page.run("dashboard", LIMITS, _fill, _measure))
