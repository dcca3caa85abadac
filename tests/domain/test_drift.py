"""Shapes: read from a worker's words, which are not believed beyond their form."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain.workers import drift
from wa_orchestrator.domain.workers.drift import Kind, Shape, Sighting
from wa_orchestrator.texts import catalogue

DRIFT_OF_THE_WORKER = Path(__file__).parents[2] / "worker" / "src" / "connection" / "drift.ts"


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("ack.error:479", Shape(Kind.ACK_ERROR, "479")),
        ("stanza:stream:novel", Shape(Kind.STANZA, "stream:novel")),
        ("gossip:479", None),
        ("ack.error:", None),
        ("ack.error:<b>", None),
        ("stanza:" + "x" * 49, None),
    ],
)
def test_only_names_of_the_protocol_are_shapes(text: str, shape: Shape | None) -> None:
    assert drift.parse(text) == shape
    assert shape is None or str(shape) == text


def test_a_report_is_read_as_far_as_it_has_the_right_form() -> None:
    good = {"shape": "ack.error:479", "count": 3, "firstAt": 1, "lastAt": 2}
    bad = [7, {}, {**good, "shape": 5}, {**good, "count": -1}, {**good, "lastAt": "now"}, {**good, "shape": "x:y"}]
    assert drift.sightings([*bad, good]) == [Sighting(Shape(Kind.ACK_ERROR, "479"), 3, 1, 2)]


@given(st.text())
def test_whatever_a_worker_says_a_shape_is_short_and_plain(text: str) -> None:
    shape = drift.parse(text)
    assert shape is None or (len(str(shape)) < 80 and "<" not in str(shape))


def test_every_kind_that_a_worker_reports_is_known_here_and_has_a_sentence() -> None:
    source = DRIFT_OF_THE_WORKER.read_text("utf-8")
    reported = {*re.findall(r"look\('([a-z.]+)'", source), *re.findall(r"[`']([a-z.]+):(?:\$\{|undecodable)", source)}
    assert reported == set(Kind)
    for language in ("en", "he"):
        assert not {f"drift.{kind}" for kind in Kind} - catalogue.read(language).keys()
