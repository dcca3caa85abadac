"""The page of measurements says what the results say."""

import json
import re
import shutil
from pathlib import Path

import pytest
from bench import _results

from scripts import bench_report


def test_the_page_of_measurements_is_up_to_date() -> None:
    assert bench_report.PAGE.read_text("utf-8") == bench_report.render(), "run: python -m scripts.bench_report"


def test_the_figures_of_the_readme_are_those_of_the_results() -> None:
    text = bench_report.README.read_text("utf-8")
    assert text == bench_report.readme(text), "run: python -m scripts.bench_report"
    assert text.count("(bench/RESULTS.md#") == 5


@pytest.mark.parametrize("path", sorted(bench_report.RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_every_result_has_its_command_machine_and_date(path: Path) -> None:
    result = json.loads(path.read_text("utf-8"))
    assert "python -m " in result["command"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", result["date"])
    assert "cores" in str(result)


def test_a_result_that_is_kept_is_on_the_page_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "RESULTS.md"
    readme = shutil.copy(bench_report.README, tmp_path)
    monkeypatch.setattr(_results, "FOLDER", shutil.copytree(bench_report.RESULTS, tmp_path / "results"))
    monkeypatch.setattr(bench_report, "PAGE", page)
    monkeypatch.setattr(bench_report, "README", Path(readme))
    result = json.loads((bench_report.RESULTS / "worker.json").read_text("utf-8"))
    result["worker"]["linked"]["pssMb"] = 98.76
    _results.keep("worker", result)
    assert "98.76 MB" in page.read_text("utf-8")
    assert "98.76 MB" in Path(readme).read_text("utf-8")


def test_a_figure_that_is_missing_in_its_result_is_noticed(tmp_path: Path) -> None:
    result = json.loads((bench_report.RESULTS / "dispatcher.json").read_text("utf-8"))
    del result["runs"][1]["cpu_ms_per_release"]
    (tmp_path / "dispatcher.json").write_text(json.dumps(result))
    with pytest.raises(TypeError):
        bench_report.render(tmp_path)
