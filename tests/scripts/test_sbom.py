"""The bill of materials names everything that is locked, and is the same wherever it is made."""

import json
import re
import shutil
from pathlib import Path

from scripts import sbom


def test_every_locked_package_is_listed_once_with_its_hashes() -> None:
    listed = json.loads(sbom.bill())["components"]
    refs = [each["bom-ref"] for each in listed]
    locked = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", (sbom.ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert len(refs) == len(set(refs))
    assert {f"pkg:pypi/{name.lower().replace('_', '-')}@{version}" for name, version in locked} <= set(refs)
    assert any(ref.startswith("pkg:npm/baileys@") for ref in refs)
    assert not any(ref.startswith("pkg:npm/esbuild@") for ref in refs), "it builds the worker and is not shipped"
    for each in listed:
        files = each.get("externalReferences", [{}])[0]
        assert each.get("hashes") or files.get("hashes"), each["bom-ref"]


def test_the_same_commit_gives_the_same_bytes_in_another_directory(tmp_path: Path) -> None:
    (tmp_path / "worker").mkdir()
    for name in ("pyproject.toml", "requirements.lock", "worker/package-lock.json"):
        shutil.copy(sbom.ROOT / name, tmp_path / name)
    assert sbom.bill(tmp_path) == sbom.bill()
    assert "timestamp" not in sbom.bill()
