"""Benchmarks of a page in a browser: a filled Redis, the dashboard over it, Chromium beside it."""

import json
import os
import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright
from tests.dashboard import serving
from tests.dashboard.browsing import CHROMIUM, FLAGS, log_in, visit

from bench import _results
from wa_orchestrator.store.engine.embedded_redis import EmbeddedRedis

#: Measures a logged-in page, given the dashboard's address, the URL of its Redis, and the thread that serves it.
Measure = Callable[[Page, str, str, serving.Thread], dict[str, Any]]
_FILL_S = 600


def run(
    name: str,
    limits: Mapping[str, float],
    fill: Callable[[str], Awaitable[None]],
    measure: Measure,
    *,
    routers: serving.Routers = lambda _: [],
) -> int:
    """Measure, write the result, and return how many limits were exceeded."""
    helper = serving.Thread()
    with tempfile.TemporaryDirectory() as home:
        embedded = EmbeddedRedis(Path(home))
        redis_url = helper.do(embedded.__aenter__()).url
        try:
            helper.do(fill(redis_url), timeout=_FILL_S)
            serve = serving.in_thread(redis_url, routers=routers)
            with serve as (address, thread), sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                page = log_in(visit(browser, address, width=1440), address, serving.PASSWORD)
                result = measure(page, address, redis_url, thread)
                browser.close()
        finally:
            helper.do(embedded.__aexit__(None, None, None))
            helper.stop()
    broken = [each for each, most in limits.items() if result[each] > most]
    machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "python": platform.python_version()}
    _results.keep(name, {"limits": limits, "result": result, "machine": machine})
    sys.stdout.write(json.dumps(result, indent=2) + f"\nbroken: {broken or 'none'}\n")
    return len(broken)
