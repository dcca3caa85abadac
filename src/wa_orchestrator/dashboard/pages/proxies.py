"""Proxies: four slots each, who sits there, and how healthy they were."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from markupsafe import Markup

from wa_orchestrator.dashboard.fleet import attention, history
from wa_orchestrator.dashboard.html import charts
from wa_orchestrator.dashboard.html.renderer import Desk, Shown, View
from wa_orchestrator.store.records import Proxy


async def show(desk: Desk, view: View, query: Mapping[str, str]) -> Shown:
    """Show all proxies, bad ones first."""
    proxies = in_order(view)
    parts = await _parts(desk, view, proxies)
    watch = {"page": "proxies", "ids": ",".join(proxy.id for proxy in proxies)}
    return Shown("proxies.html", parts, {"proxies": proxies, "query": query}, watch)


async def parts(desk: Desk, view: View, query: Mapping[str, str]) -> dict[str, Markup]:
    """Render the proxies that are on the page; those that left are taken away."""
    ids = [name for name in query.get("ids", "").split(",") if name]
    known: dict[str, Proxy] = {proxy.id: proxy for proxy in view.snapshot.proxies}
    made = await _parts(desk, view, [known[name] for name in ids if name in known])
    gone = {f"px-{name}": Markup("") for name in ids if name not in known}
    return made | gone | {"newer": desk.macros.newer(view, len(set(known) - set(ids)))}


async def _parts(desk: Desk, view: View, proxies: list[Proxy]) -> dict[str, Markup]:
    m = desk.macros
    latencies = await history.health(desk.context.scripts, [proxy.id for proxy in proxies])
    made = desk.frame_parts(view) | {
        "slots-headline": m.slots_headline(view),
        "slots-notice": m.slots_notice(view),
        "newer": m.newer(view, 0),
    }
    for proxy in proxies:
        found = latencies[proxy.id][-40:]
        failed = len([each for each in found if each < 0])
        label = view.plain("proxy.health_label", n=len(found), failed=failed)
        made[f"px-{proxy.id}"] = m.proxy_row(view, proxy, charts.spark(found, label), address(proxy), sat(view, proxy))
    return made


def sat(view: View, proxy: Proxy) -> Markup:
    """Say who sat on a proxy when it went bad; nothing where that is not known."""
    rows = [row for row in view.snapshot.sorted_rows() if row.id in view.snapshot.left.get(proxy.id, ())]
    return view.n("attention.sat", len(rows), names=attention.named(rows, view.snapshot, view)) if rows else Markup("")


def in_order(view: View) -> list[Proxy]:
    """All proxies, bad ones first, then the fullest."""
    return sorted(view.snapshot.proxies, key=lambda proxy: (proxy.status == "OK", -len(proxy.sessions), proxy.id))


def address(proxy: Proxy) -> str:
    """Give host and port of a proxy, without its user."""
    return urlsplit(proxy.masked).netloc.rpartition("@")[2] or proxy.masked
