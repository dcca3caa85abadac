"""The part of PromQL that the dashboard uses, over scrapes in memory.

Selectors with matchers, `rate`, `increase`, `histogram_quantile`, `sum` with and without `by`, and a factor. Anything else
raises, so that a panel which needs more is noticed. Ranges are not extrapolated to their ends, as Prometheus does: that
changes values a little, and never whether there are any.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
#: How long the last sample of a series stands for it.
LOOK_BACK_S: Final = 300
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_TOKEN: Final = re.compile(r'\s*("[^"]*"|=~|[a-z_][a-z_A-Z0-9]*|\d+(?:\.\d+)?[smh]?|[(){}\[\],=*])')


@dataclass
class Series:
    """The samples of one series, in the order of their times."""

    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def last(self, at_s: float) -> float | None:
        found = bisect_right(self.times, at_s) - 1
        return self.values[found] if found >= 0 and self.times[found] > at_s - LOOK_BACK_S else None

    def increase(self, from_s: float, until_s: float) -> tuple[float, float] | None:
        """How much a counter grew between its first and last sample of a span, and the seconds between them."""
        first, end = bisect_left(self.times, from_s), bisect_right(self.times, until_s)
        values = self.values[first:end]
        if len(values) < 2:
            return None
        grown = sum(after - before if after >= before else after for before, after in pairwise(values))
        return grown, self.times[end - 1] - self.times[first]


@dataclass
class Scrapes:
    """What was scraped, by the name of the metric."""

    series: dict[str, dict[Labels, Series]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Series)))

    def add(self, at_s: float, samples: Iterable[tuple[str, Mapping[str, str], float]]) -> None:
        for name, labels, value in samples:
            found = self.series[name][frozenset(labels.items())]
            found.times.append(at_s)
            found.values.append(value)

    def query(self, expression: str, at_s: float) -> Vector:
        """Evaluate an expression at an instant."""
        return _Query(self, expression, at_s).answer()


class _Query:
    """One evaluation: reads the expression from left to right."""

    def __init__(self, scrapes: Scrapes, expression: str, at_s: float) -> None:
        self._scrapes, self._at_s = scrapes, at_s
        self._tokens = _tokens(expression)

    def answer(self) -> Vector:
        found = self._product()
        if self._tokens:
            raise ValueError(f"not understood: {' '.join(self._tokens)}")
        return found

    def _product(self) -> Vector:
        found = self._vector()
        while self._tokens and self._tokens[0] == "*":
            self._take("*")
            factor = float(self._tokens.pop(0))
            found = {labels: value * factor for labels, value in found.items()}
        return found

    def _vector(self) -> Vector:
        name = self._tokens.pop(0)
        match name:
            case "rate" | "increase":
                return self._range(name)
            case "sum":
                by = self._names() if self._tokens[0] == "by" else ()
                return _sum(self._inside(), by)
            case "histogram_quantile":
                self._take("(")
                quantile = float(self._tokens.pop(0))
                self._take(",")
                buckets = self._product()
                self._take(")")
                return _quantiles(quantile, buckets)
            case _:
                chosen = self._chosen(name)
                values = {labels: each.last(self._at_s) for labels, each in chosen.items()}
                return {labels: value for labels, value in values.items() if value is not None}

    def _range(self, function: str) -> Vector:
        self._take("(")
        chosen = self._chosen(self._tokens.pop(0))
        self._take("[")
        spelled = self._tokens.pop(0)
        span_s = float(spelled[:-1]) * _UNITS[spelled[-1]]
        self._take("]")
        self._take(")")
        grown = {labels: each.increase(self._at_s - span_s, self._at_s) for labels, each in chosen.items()}
        whole = span_s if function == "increase" else 1
        return {labels: found[0] / found[1] * whole for labels, found in grown.items() if found is not None}

    def _chosen(self, name: str) -> dict[Labels, Series]:
        matchers = []
        if self._tokens and self._tokens[0] == "{":
            self._take("{")
            while self._tokens[0] != "}":
                label, operator, wanted = (self._tokens.pop(0) for _ in range(3))
                pattern = wanted.strip('"')
                matchers.append((label, pattern if operator == "=~" else re.escape(pattern)))
                if self._tokens[0] == ",":
                    self._take(",")
            self._take("}")
        return {
            labels: each
            for labels, each in self._scrapes.series.get(name, {}).items()
            if all(re.fullmatch(pattern, dict(labels).get(label, "")) for label, pattern in matchers)
        }

    def _inside(self) -> Vector:
        self._take("(")
        found = self._product()
        self._take(")")
        return found

    def _names(self) -> Sequence[str]:
        self._take("by")
        self._take("(")
        names = []
        while (token := self._tokens.pop(0)) != ")":
            if token != ",":
                names.append(token)
        return names

    def _take(self, expected: str) -> None:
        token = self._tokens.pop(0)
        if token != expected:
            raise ValueError(f"{token} where {expected} was expected")


def _tokens(expression: str) -> list[str]:
    found, at = [], 0
    while at < len(expression):
        token = _TOKEN.match(expression, at)
        if token is None:
            raise ValueError(f"not understood: {expression[at:]}")
        found.append(token[1])
        at = token.end()
    return found


def _sum(vector: Vector, by: Sequence[str]) -> Vector:
    found: Vector = defaultdict(float)
    for labels, value in vector.items():
        found[frozenset(each for each in labels if each[0] in by)] += value
    return dict(found)


def _quantiles(quantile: float, buckets: Vector) -> Vector:
    histograms: dict[Labels, list[tuple[float, float]]] = defaultdict(list)
    for labels, count in buckets.items():
        limit = float(dict(labels)["le"])
        histograms[frozenset(each for each in labels if each[0] != "le")].append((limit, count))
    return {labels: _quantile(quantile, sorted(each)) for labels, each in histograms.items()}


def _quantile(quantile: float, buckets: Sequence[tuple[float, float]]) -> float:
    """Return the value below which this share lies, linear within its bucket; NaN where nothing was observed."""
    rank = quantile * buckets[-1][1]
    if not rank:
        return math.nan
    place = next(at for at, (_, count) in enumerate(buckets) if count >= rank)
    below, before = buckets[place - 1] if place else (0.0, 0.0)
    limit, count = buckets[place]
    return below if math.isinf(limit) else below + (limit - below) * (rank - before) / (count - before)
