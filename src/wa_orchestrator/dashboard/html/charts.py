"""Charts as SVG without text: labels are HTML, so that screen readers and right-to-left layout work."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

QUARTERS: Final = 96
"""Quarter hours in a strip."""
#: Top and height of a beat: height repeats the colour, for those who cannot see it.
_BEATS: Final = {"good": (0, 12), "warn": (5, 7), "bad": (3, 9), "off": (11, 1)}


def strip(beats: Sequence[str], label: str, *, tall: bool = False) -> Markup:
    """Draw the connection of the last 24 hours: one path per kind, adjacent beats joined."""
    paths: dict[str, str] = {}
    start = 0
    for at in range(1, len(beats) + 1):
        if at == len(beats) or beats[at] != beats[start]:
            top, height = _BEATS[beats[start]]
            width = at - start
            paths[beats[start]] = paths.get(beats[start], "") + f"M{start} {top}h{width}v{height}h-{width}z"
            start = at
    drawn = Markup("").join(Markup('<path class="{}" d="{}"/>').format(kind, d) for kind, d in paths.items())
    return Markup(
        '<svg class="strip flip{}" viewBox="0 0 96 12" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(" tall" if tall else "", label, drawn)


def top_of(sent: Sequence[int], failed: Sequence[int]) -> int:
    """Return the top of the scale: the next round number."""
    most = max([1, *(a + b for a, b in zip(sent, failed, strict=True))])
    size = int(10 ** (len(str(most)) - 1))
    return min(step * size for step in (1, 2, 4, 6, 8, 10) if step * size >= most)


def bars(sent: Sequence[int], failed: Sequence[int], label: str) -> Markup:
    """Draw messages per hour on a scale up to `top_of`; the last column is the current hour."""
    most = top_of(sent, failed)
    drawn = []
    for at, (good, bad) in enumerate(zip(sent, failed, strict=True)):
        whole, lost = (good + bad) / most * 100, bad / most * 100
        kind = "so-far" if at == len(sent) - 1 else "a"
        if whole:
            drawn.append(_column(kind, at, whole, whole))
        if lost:
            drawn.append(_column("b", at, whole, max(lost, 2.0)))
    return Markup(
        '<svg class="bars flip" viewBox="0 0 240 100" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<path class="q" d="M0 100H240M0 50H240M0 0H240"/>{}</svg>'
    ).format(label, Markup("").join(drawn))


def _column(kind: str, at: int, top: float, height: float) -> Markup:
    return Markup('<rect class="{}" x="{}" y="{:.1f}" width="7" height="{:.1f}" rx="1"/>').format(
        kind, at * 10 + 1.5, 100 - top, height
    )


def area(values: Sequence[int], label: str) -> Markup:
    """Draw a number over a day as a filled line; -1 (no sample) is a gap."""
    most = max([1, *values])
    drawn, start = "", 0
    for at in range(len(values) + 1):
        if at < len(values) and values[at] >= 0:
            continue
        if at > start:
            points = "".join(f"V{40 - values[each] / most * 38:.1f}H{each + 1}" for each in range(start, at))
            drawn += f"M{start} 40{points}V40z"
        start = at + 1
    return Markup(
        '<svg class="area flip" viewBox="0 0 96 40" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<path class="q" d="M0 40H96"/><path class="a" d="{}"/></svg>'
    ).format(label, drawn)


def spark(values: Sequence[int], label: str) -> Markup:
    """Draw values over time as a line; -1 is a failure, drawn as a mark at the bottom."""
    width, height = 72, 20
    most = max([1, *values])
    step = width / max(1, len(values) - 1)
    runs: list[list[str]] = [[]]
    lost = ""
    for at, value in enumerate(values):
        if value < 0:
            lost += f"M{at * step:.1f} {height}V2"
            runs.append([])
        else:
            runs[-1].append(f"{at * step:.1f} {height - 2 - value / most * (height - 5):.1f}")
    kept = [run for run in runs if run]
    line = "".join(f"M{'L'.join(run)}" for run in kept)
    ground = "".join(f"M{run[0].split()[0]} {height}L{'L'.join(run)}V{height}z" for run in kept)
    return Markup(
        '<svg class="spark flip" viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        '<path class="ground" d="{ground}"/><path d="{line}"/><path class="lost" d="{lost}"/></svg>'
    ).format(w=width, h=height, label=label, ground=ground, line=line, lost=lost)
