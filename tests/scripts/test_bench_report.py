"""The page of measurements says what the results say."""

import json
import re
from pathlib import Path

import pytest

from scripts import bench_report


def test_the_page_of_measurements_is_up_to_date() -> None:
    assert bench_report.PAGE.read_text("utf-8") == bench_report.render(), "run: python -m scripts.bench_report"


@pytest.mark.parametrize("path", sorted(bench_report.RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_every_result_has_its_command_machine_and_date(path: Path) -> None:
    result = json.loads(path.read_text("utf-8"))
    assert "python -m " in result["command"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", result["date"])
    assert "cores" in str(result)


def test_a_figure_that_is_missing_in_its_result_is_noticed(tmp_path: Path) -> None:
    result = json.loads((bench_report.RESULTS / "dispatcher.json").read_text("utf-8"))
    del result["runs"][1]["cpu_ms_per_release"]
    (tmp_path / "dispatcher.json").write_text(json.dumps(result))
    with pytest.raises(TypeError):
        bench_report.render(tmp_path)
