"""Collects the pages for the site: `python -m scripts.docs_site`, then `mkdocs build --strict` (`make docs`).

Pages link to one another as files of the repository. The site has them at the same places, so a link that works in one
works in the other, and the build fails at one that does not.
"""

import shutil
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
TARGET: Final = ROOT / ".cache" / "docs"
PAGES: Final = ("*.md", "LICENSE", "docs/**/*.md", "docs/pictures/*", "docs/assets/*", "worker/README.md",
                "worker/LICENSE", "bench/*.md", "bench/gateway/README.md", "deploy/**/*.md")  # fmt: skip


def collect(target: Path = TARGET) -> int:
    """Copy all pages to `target`, with nothing else in it; return how many."""
    shutil.rmtree(target, ignore_errors=True)
    found = sorted({path for pattern in PAGES for path in ROOT.glob(pattern) if path.is_file()})
    for path in found:
        copy = target / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return len(found)


if __name__ == "__main__":
    print(f"{collect()} files in {TARGET.relative_to(ROOT)}")
