"""The documents name files that exist, and make a site."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser

from scripts import docs_site
from tests.dashboard.browsing import chromium
from tests.waiting import PATIENCE_S

__all__ = ["chromium"]

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "wa_orchestrator"
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), ROOT / "worker" / "README.md"])
_FILE = re.compile(r"`([\w./-]+\.(?:py|ts|mjs|lua|toml|md))`")
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
_HOMES = (
    ROOT,
    PACKAGE,
    PACKAGE / "store",
    *sorted((PACKAGE / "store" / "lua").glob("*")),
    ROOT / "worker",
    ROOT / "worker" / "src",
    *sorted((ROOT / "worker" / "src").glob("*/")),
    ROOT / "worker" / "test",
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = {name for name in _FILE.findall(text) if not any((home / name).exists() for home in (*_HOMES, page.parent))}
    linked = {name for name in _LINK.findall(text) if not (page.parent / name).exists()}
    assert (named, linked) == (set(), set())


@pytest.mark.parametrize(
    ("page", "chapters"),
    [
        ("sessions.md", ["From nothing to connected", "Proxies", "Events of workers"]),
        ("sending.md", ["Recipients", "Send it once", "What became of it"]),
        ("architecture.md", ["The way of a message", "The way of a session", "The way of a proxy failure"]),
    ],
)
def test_the_index_leads_to_sessions_to_the_way_of_a_message_and_to_the_whole_system(
    page: str, chapters: list[str]
) -> None:
    assert f"]({page})" in (ROOT / "docs" / "index.md").read_text("utf-8")
    lines = (ROOT / "docs" / page).read_text("utf-8").splitlines()
    assert [chapter for chapter in chapters if f"## {chapter}" not in lines] == []


def test_the_picture_of_the_readme_moves_and_is_light() -> None:
    path = ROOT / "docs" / "pictures" / "demo.webp"
    assert f"({path.relative_to(ROOT)})" in (ROOT / "README.md").read_text("utf-8")
    with Image.open(path) as picture:
        assert getattr(picture, "n_frames", 1) >= 5
    assert path.stat().st_size < 1_000_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a broken link, or a page that no list leads to, fails it."""
    place = tmp_path_factory.mktemp("site")
    docs_site.collect(place / "docs")
    built = subprocess.run(
        (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place / "site")),
        cwd=ROOT, env=os.environ | {"DOCS_DIR": str(place / "docs")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return place / "site"


def test_the_site_has_every_page_in_its_search(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    pages = {path.relative_to(ROOT).with_suffix(".html").as_posix() for path in PAGES} - {
        "README.html",
        "worker/README.html",
    }
    assert pages | {"index.html", "worker/index.html", "bench/RESULTS.html"} <= found


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(
        r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?(?:https?:)?//[^\"' >]+|<link[^>]*stylesheet[^>]*//[^>]+"
    )
    found = {path.name: loads.findall(path.read_text("utf-8")) for path in site.rglob("*.html")}
    assert {name: each for name, each in found.items() if each} == {}


@pytest.mark.browser
def test_the_site_is_searched_as_files_and_without_a_network(site: Path, chromium: Browser) -> None:
    page = chromium.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.context.set_offline(True)
    page.goto((site / "index.html").as_uri())
    # Key by key: the theme looks at the field when a key is released, not when its value is set.
    page.locator(".md-search__input").press_sequentially("journal unwritable")
    page.wait_for_selector(".md-search-result__item a", state="attached", timeout=PATIENCE_S * 1000)
    links = page.locator(".md-search-result__item a").evaluate_all("all => all.map(each => each.pathname)")
    page.close()
    assert any(link.endswith("/docs/backups.html") for link in links)
    assert [url for url in asked if not url.startswith("file:")] == []
