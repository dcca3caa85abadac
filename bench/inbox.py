"""The inbox in a browser: opening a conversation of 10,000 messages, reading back in it, and 500 conversations in which
50 messages a second arrive.

Run as `python -m bench.inbox`; the result goes to `bench/results/inbox.json`.
"""

import asyncio
import os
import statistics
import sys
import time
from typing import Any

from playwright.sync_api import Page
from tests.dashboard import serving
from tests.dashboard.sample_fleet import fill_large
from tests.dashboard.served_fleet import api

from bench import _page
from wa_orchestrator.domain import conversation
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import contacts

CONVERSATIONS, SESSIONS = 500, 50
MESSAGES = int(os.environ.get("INBOX_MESSAGES", "10000"))
EVENTS_PER_S, SECONDS = 50, 15
OPENINGS, PAGES = 9, 20
LIMITS = {"openMs": 300.0, "frameMsP95": 100.0, "typingMsP95": 50.0}
LONG = "972520000000"

#: Clicks and waits until what was asked for is drawn. Returns the milliseconds that a person waited.
_OPEN = """async id => {
  const begun = performance.now()
  document.querySelector(`[data-open-conversation="${id}"]`).click()
  while (document.querySelector('.msgs')?.dataset.conversation !== id) await new Promise(requestAnimationFrame)
  await new Promise(requestAnimationFrame)
  return performance.now() - begun }"""
_EARLIER = """async () => {
  const before = document.querySelector('.msg').id, begun = performance.now()
  document.querySelector('[data-earlier]').click()
  while (document.querySelector('.msg').id === before) await new Promise(requestAnimationFrame)
  await new Promise(requestAnimationFrame)
  return performance.now() - begun }"""
#: Notes the time between frames, and between an input and the frame that shows it, until told to stop.
_WATCH = """() => {
  window.frames_ = []; window.typed_ = []; window.watched_ = true
  const box = document.querySelector('#reply textarea')
  let last = performance.now()
  const tick = now => { window.frames_.push(now - last); last = now; if (window.watched_) requestAnimationFrame(tick) }
  requestAnimationFrame(tick)
  const type = () => { if (!window.watched_) return
    const begun = performance.now(); box.value += 'a'; box.dispatchEvent(new InputEvent('input', { bubbles: true }))
    requestAnimationFrame(() => window.typed_.push(performance.now() - begun)); setTimeout(type, 150) }
  type() }"""
_STOP = "() => { window.watched_ = false; return [window.frames_, window.typed_] }"


async def _say(scripts: Scripts, session: str, ours: str, person: str, name: str) -> None:
    fields: dict[str, str | int] = {"text": f"Message {name}, ההודעה", "push_name": f"Person {person[-3:]}", "at": 1}
    message = contacts.Incoming(session, ours, name, "text", person, fields=fields, name=f"Person {person[-3:]}")
    await contacts.receive(scripts, message, keep_ms=10**10)


async def _fill(redis_url: str) -> None:
    redis = LineClient.from_url(redis_url, decode_responses=True)
    scripts = Scripts(redis)
    await fill_large(scripts, sessions=SESSIONS)
    for at in range(CONVERSATIONS):
        session = f"worker_{at % SESSIONS + 1}"
        await _say(scripts, session, await _phone(redis, session), f"97252{at:07d}", f"3A{at:06X}")
    ours = await _phone(redis, "worker_1")
    for begin in range(0, MESSAGES, 50):
        await asyncio.gather(*(_say(scripts, "worker_1", ours, LONG, f"3B{at:06X}") for at in range(begin, begin + 50)))
    await redis.aclose()


async def _phone(redis: Any, session: str) -> str:
    return str(await redis.hget(keys.session(session), "phone") or "")


async def _arrive(redis_url: str) -> int:
    """Have messages arrive at an even pace, in all conversations in turn."""
    redis = LineClient.from_url(redis_url, decode_responses=True)
    scripts, begun, made, on_their_way = Scripts(redis), time.monotonic(), 0, set()
    phones = {f"worker_{at}": await _phone(redis, f"worker_{at}") for at in range(1, SESSIONS + 1)}
    while time.monotonic() - begun < SECONDS:
        at = made * 7 % CONVERSATIONS
        session = f"worker_{at % SESSIONS + 1}"
        on_their_way.add(
            asyncio.create_task(_say(scripts, session, phones[session], f"97252{at:07d}", f"3C{made:06X}"))
        )
        made += 1
        await asyncio.sleep(max(0.0, begun + made / EVENTS_PER_S - time.monotonic()))
    await asyncio.gather(*on_their_way)
    await redis.aclose()
    return made


def _measure(page: Page, address: str, redis_url: str, thread: serving.Thread) -> dict[str, Any]:
    long, other = conversation.id_of("worker_1", LONG), conversation.id_of("worker_2", "972520000001")
    page.goto(f"{address}/inbox?c={other}")
    page.wait_for_selector("body[data-live]")
    page.goto(f"{address}/inbox?q=Person 00")
    page.wait_for_selector(f'[data-open-conversation="{long}"]')
    opened = []
    for _ in range(OPENINGS):
        page.evaluate(_OPEN, other)
        opened.append(float(page.evaluate(_OPEN, long)))
    earlier = [float(page.evaluate(_EARLIER)) for _ in range(PAGES)]
    shown = page.locator(".msg").count()
    page.goto(f"{address}/inbox?c={long}")
    page.wait_for_selector("body[data-live]")
    nodes = page.evaluate("document.querySelectorAll('*').length")
    page.evaluate(_WATCH)
    made = thread.do(_arrive(redis_url), timeout=SECONDS + 60)
    frames, typed = page.evaluate(_STOP)
    return {
        "messages": MESSAGES,
        "openMs": round(statistics.median(opened), 1),
        "openMsEach": [round(each, 1) for each in opened],
        "earlierMs": round(statistics.median(earlier), 1),
        "earlierMsLongest": round(max(earlier), 1),
        "messagesReadBack": shown,
        "conversations": CONVERSATIONS,
        "eventsPerS": round(made / SECONDS, 1),
        "frameMsP95": _p95(frames),
        "frameMsLongest": round(max(frames), 1),
        "typingMsP95": _p95(typed),
        "nodes": nodes,
    }


def _p95(figures: list[float]) -> float:
    return round(sorted(figures)[int(len(figures) * 0.95)], 1)


if __name__ == "__main__":
    sys.exit(_page.run("inbox", LIMITS, _fill, _measure, routers=api))
