"""Proxies page: slots, sessions and the latest checks of each proxy."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from markupsafe import Markup

from wa_orchestrator.dashboard.fleet import attention, history
from wa_orchestrator.dashboard.html import charts
from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer, View
from wa_orchestrator.store.records import Proxy


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent:
    """Show all proxies, bad ones first."""
    proxies = in_order(view)
    parts = await _parts(renderer, view, proxies)
    watch = {"page": "proxies", "ids": ",".join(proxy.id for proxy in proxies)}
    return PageContent("proxies.html", parts, {"proxies": proxies, "query": query}, watch)


async def parts(renderer: Renderer, view: View, query: Mapping[str, str]) -> dict[str, Markup]:
    """Render the proxies on the page; removed ones become empty."""
    ids = [name for name in query.get("ids", "").split(",") if name]
    known: dict[str, Proxy] = {proxy.id: proxy for proxy in view.snapshot.proxies}
    made = await _parts(renderer, view, [known[name] for name in ids if name in known])
    gone = {f"px-{name}": Markup("") for name in ids if name not in known}
    return made | gone | {"newer": renderer.macros.newer(view, len(set(known) - set(ids)))}


async def _parts(renderer: Renderer, view: View, proxies: list[Proxy]) -> dict[str, Markup]:
    m = renderer.macros
    latencies = await history.health(renderer.context.scripts, [proxy.id for proxy in proxies])
    made = renderer.frame_parts(view) | {
        "slots-headline": m.slots_headline(view),
        "slots-notice": m.slots_notice(view),
        "newer": m.newer(view, 0),
    }
    for proxy in proxies:
        found = latencies[proxy.id][-40:]
        failed = len([each for each in found if each < 0])
        label = view.plain("proxy.health_label", n=len(found), failed=failed)
        moved = moved_sessions(view, proxy)
        made[f"px-{proxy.id}"] = m.proxy_row(view, proxy, charts.spark(found, label), address(proxy), moved)
    return made


def moved_sessions(view: View, proxy: Proxy) -> Markup:
    """Return which sessions were on a proxy when it became bad, if that is known."""
    rows = [row for row in view.snapshot.sorted_rows() if row.id in view.snapshot.left.get(proxy.id, ())]
    return (
        view.n("attention.affected", len(rows), names=attention.named(rows, view.snapshot, view))
        if rows
        else Markup("")
    )


def in_order(view: View) -> list[Proxy]:
    """Return all proxies, bad ones first, then the fullest."""
    return sorted(view.snapshot.proxies, key=lambda proxy: (proxy.status == "OK", -len(proxy.sessions), proxy.id))


def address(proxy: Proxy) -> str:
    """Return host and port of a proxy, without its user."""
    return urlsplit(proxy.masked).netloc.rpartition("@")[2] or proxy.masked
