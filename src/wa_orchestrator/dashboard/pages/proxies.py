"""Proxies page: slots, sessions and the latest checks of each proxy."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from markupsafe import Markup

from wa_orchestrator.dashboard.fleet import attention, history
from wa_orchestrator.dashboard.html import charts
from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.dashboard.pages.fleet import number_in
from wa_orchestrator.orchestrator.sessions import profile_inventory
from wa_orchestrator.store.records import Proxy

PAGE_SIZE: Final = 25


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    """Show the proxies that match the search, bad ones first."""
    text = query.get("q", "")
    found = matching(view, text)
    page = page_of(found, query)
    shown = found[page * PAGE_SIZE : (page + 1) * PAGE_SIZE]
    values = {
        "proxies": shown,
        "every_id": [proxy.id for proxy in view.snapshot.proxies],
        "found": len(found),
        "page": page,
        "page_size": PAGE_SIZE,
        "q": text,
    }
    watch = {"page": "proxies", "ids": ",".join(proxy.id for proxy in shown), "q": text, "found": str(len(found))}
    return PageContent("proxies.html", await _parts(renderer, view, shown), values, watch)


async def parts(renderer: Renderer, view: View, query: Mapping[str, str]) -> dict[str, Markup]:
    """Render the proxies on the page; removed ones become empty."""
    ids = [name for name in query.get("ids", "").split(",") if name]
    shown = [proxy for proxy in view.snapshot.proxies if proxy.id in ids]
    made = await _parts(renderer, view, shown)
    gone = {f"px-{name}": Markup("") for name in ids if f"px-{name}" not in made}
    newer = len(matching(view, query.get("q", ""))) - number_in(query, "found") + len(gone)
    return made | gone | {"newer": renderer.macros.newer(view, max(0, newer))}


def matching(view: View, text: str) -> list[Proxy]:
    """Return the proxies that a search finds by id, name, address or session: bad ones first, then the fullest."""
    wanted = text.strip().lower()
    found = [proxy for proxy in view.snapshot.proxies if wanted in proxy.id or _matches(view, proxy, wanted)]
    return sorted(found, key=lambda proxy: (proxy.status == "OK", -len(proxy.sessions), proxy.id))


def _matches(view: View, proxy: Proxy, wanted: str) -> bool:
    rows = (view.snapshot.rows[name] for name in view.snapshot.sessions_of(proxy) if name in view.snapshot.rows)
    return wanted in f"{proxy.name} {address(proxy)}".lower() or any(row.matches(wanted) for row in rows)


def page_of(found: Sequence[Proxy], query: Mapping[str, str]) -> int:
    """Return the page that the query names, or the one that has the proxy it names."""
    for at, proxy in enumerate(found):
        if proxy.id == query.get("id"):
            return at // PAGE_SIZE
    return max(0, min(number_in(query, "page"), (len(found) - 1) // PAGE_SIZE))


async def _parts(renderer: Renderer, view: View, proxies: list[Proxy]) -> dict[str, Markup]:
    m = renderer.macros
    latencies = await history.health(renderer.context.scripts, [proxy.id for proxy in proxies])
    made = {"slots-headline": m.slots_headline(view), "slots-notice": m.slots_notice(view), "newer": m.newer(view, 0)}
    stock = await profile_inventory.read(renderer.context.settings, renderer.context.scripts)
    low = stock.is_low(renderer.context.settings.low_inventory_profiles)
    made["profiles"] = m.profiles(view, stock, low)
    for proxy in proxies:
        found = latencies[proxy.id][-40:]
        failed = len([each for each in found if each < 0])
        label = view.plain("proxy.health_label", n=len(found), failed=failed)
        moved = moved_sessions(view, proxy)
        made[f"px-{proxy.id}"] = m.proxy_row(view, proxy, charts.spark(found, label), address(proxy), moved)
    return made


def moved_sessions(view: View, proxy: Proxy) -> Markup:
    """Return which sessions were on a proxy when it became bad, if that is known."""
    left = view.snapshot.left.get(proxy.id)
    if not left:  # most: the fleet is not walked for them
        return Markup("")
    rows = [row for row in view.snapshot.sorted_rows() if row.id in left]
    names = attention.named(rows, view.snapshot, view)
    return view.n("attention.affected", len(rows), names=names) if rows else Markup("")


def address(proxy: Proxy) -> str:
    """Return host and port of a proxy, without its user."""
    return urlsplit(proxy.masked).netloc.rpartition("@")[2] or proxy.masked
