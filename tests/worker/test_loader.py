"""What keeps a worker small and quick to start, on the real bundle."""

import shutil
from pathlib import Path

import pytest
from bench.worker.figures import private_mb

from tests.waiting import until
from tests.worker import harness
from tests.worker.harness import Rig, new_phone

#: 15.5 are measured. Without the collection it would be 4 more, with WebAssembly 4.5, with all types at once 17.
MOST_PRIVATE_MB = 20.0


@pytest.fixture
def dist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What was built, without anything that a worker has left beside it."""
    copy = tmp_path / "dist"
    shutil.copytree(harness.BUNDLE.parent, copy, ignore=shutil.ignore_patterns("*.cache", "*.new"))
    monkeypatch.setattr(harness, "BUNDLE", copy / "worker.cjs")
    return copy


def compiled(dist: Path) -> list[Path]:
    """What workers have left beside the bundle."""
    return list(dist.glob("code-*.cache"))


def test_everything_that_was_built_is_pure_ascii(dist: Path) -> None:
    built = sorted(dist.iterdir())
    assert [path.name[:6] for path in built] == ["THIRD-", "loader", "proto-", "worker"]
    assert [path.name for path in built[1:] if max(path.read_bytes()) > 0x7F] == []


def test_the_notices_of_everything_in_the_bundle_lie_beside_it(dist: Path) -> None:
    notices = (dist / "THIRD-PARTY.txt").read_text("utf-8")
    assert [name for name in ("baileys", "libsignal", "protobufjs", "ws") if f"\n{name} " not in notices] == []
    assert "GNU GENERAL PUBLIC LICENSE" in notices
    assert notices.count("Permission is hereby granted") > 5


@pytest.mark.asyncio(loop_scope="session")
async def test_the_first_settled_worker_leaves_its_compiled_code_and_later_ones_are_small(rig: Rig, dist: Path) -> None:
    session = rig.session(SETTLE_AFTER_MS="1")
    await session.link()
    await until(lambda: compiled(dist), "compiled code is kept")
    await session.worker.kill()
    [kept] = compiled(dist)
    written = kept.stat().st_mtime_ns
    await session.restart()
    await rig.server.acked(await session.say(new_phone(), "after it has settled"))
    await until(lambda: private_mb(session.worker.process.pid) <= MOST_PRIVATE_MB, "it is small")
    assert kept.stat().st_mtime_ns == written, "it was accepted, or it would have been written again"


@pytest.mark.asyncio(loop_scope="session")
async def test_the_bundle_also_runs_without_its_loader(rig: Rig, dist: Path) -> None:
    (dist / "loader.cjs").unlink()
    session = rig.session(SETTLE_AFTER_MS="1")
    await session.link()
    await rig.server.acked(await session.say(new_phone(), "nobody collects and nobody keeps"))
    assert compiled(dist) == []
