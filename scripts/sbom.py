"""Lists everything the product ships with, as CycloneDX 1.6: `python -m scripts.sbom > sbom.cdx.json`.

Made from the lock files alone, so that the same commit gives the same bytes on every machine: no time, no random serial
number, nothing of what happens to be installed.
"""

import base64
import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[1]
_REQUIREMENT = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)(?: ; (?P<marker>[^\\]+))?", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NAMESPACE = uuid.UUID("7b0c6f0e-5f0e-5d53-9d0f-2a8b9d9d6a11")

Component = dict[str, Any]


def python_components(lock: str) -> Iterator[Component]:
    """Yield the packages of a requirements file with hashes."""
    found = list(_REQUIREMENT.finditer(lock))
    ends = [each.start() for each in found[1:]] + [len(lock)]
    for each, end in zip(found, ends, strict=True):
        name, version = each["name"].lower().replace("_", "-"), each["version"]
        purl = f"pkg:pypi/{name}@{quote(version)}"
        files = {
            "type": "distribution",
            "url": purl,
            "hashes": [{"alg": "SHA-256", "content": value} for value in _HASH.findall(lock, each.start(), end)],
        }
        component = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
        marker = [{"name": "python:marker", "value": each["marker"].strip()}] if each["marker"] else []
        yield {**component, "externalReferences": [files], **({"properties": marker} if marker else {})}


def npm_components(lock: dict[str, Any]) -> Iterator[Component]:
    """Yield the packages of a package-lock.json that are needed at run time."""
    for path, package in lock["packages"].items():
        if not path or package.get("dev") or package.get("devOptional"):
            continue
        name = path.rpartition("node_modules/")[2]
        purl = f"pkg:npm/{quote(name, safe='/')}@{quote(package['version'])}"
        component: Component = {"type": "library", "bom-ref": purl, "name": name, "version": package["version"]}
        if licence := package.get("license"):
            component["licenses"] = [{"expression": licence}]
        algorithm, _, value = package.get("integrity", "").partition("-")
        if algorithm == "sha512":
            component["hashes"] = [{"alg": "SHA-512", "content": base64.b64decode(value).hex()}]
        yield {**component, "purl": purl}


def bill(root: Path = ROOT) -> str:
    """Return the bill of materials."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    components = {
        each["bom-ref"]: each
        for each in (
            *python_components((root / "requirements.lock").read_text("utf-8")),
            *npm_components(json.loads((root / "worker" / "package-lock.json").read_text("utf-8"))),
        )
    }
    listed = [components[ref] for ref in sorted(components)]
    purl = f"pkg:pypi/{project['name']}@{project['version']}"
    itself = {"type": "application", "bom-ref": purl, "name": project["name"], "version": project["version"]}
    content = {
        "metadata": {"component": {**itself, "purl": purl}},
        "components": listed,
        "dependencies": [{"ref": purl, "dependsOn": [each["bom-ref"] for each in listed]}],
    }
    serial = uuid.uuid5(_NAMESPACE, json.dumps(content, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", "version": 1}
    return json.dumps({**head, **content}, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(bill())
