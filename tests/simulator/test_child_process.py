"""Simulated and real sessions do not share a data directory."""

from pathlib import Path

import pytest

from wa_orchestrator.errors import Refused
from wa_orchestrator.simulator.child_process import check_data_dir


@pytest.mark.parametrize(
    ("used", "simulate", "code"),
    [
        ([], True, None),
        ([], False, None),
        (["redis"], False, None),
        (["redis"], True, "REAL_DATA"),
        (["redis", "simulator"], True, None),
        (["redis", "simulator"], False, "REHEARSAL_DATA"),
    ],
)
def test_simulated_and_real_data_are_not_mixed(
    tmp_path: Path, used: list[str], simulate: bool, code: str | None
) -> None:
    for name in used:
        (tmp_path / name).mkdir()
    if code is None:
        check_data_dir(tmp_path, simulate=simulate)
        assert (tmp_path / "simulator").is_dir() == simulate, "it is marked at once"
        return
    with pytest.raises(Refused, match="--data-dir") as refusal:
        check_data_dir(tmp_path, simulate=simulate)
    assert refusal.value.code == code
