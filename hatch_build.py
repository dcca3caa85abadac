"""Puts the worker's bundle into the wheel, so that the wheel is the whole product; refuses to build one without it.

Not called packaging.py: that would shadow the module of that name, which hatchling imports.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WorkerBundle(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add what `make worker` has built. An editable installation finds it in the checkout."""
        if version == "editable":
            return
        built = Path(self.root, "worker", "dist")
        if not (built / "loader.cjs").is_file():
            raise SystemExit(f"{built} has no worker; run `make worker` first, or `make dist`.")
        # Types of older bundles may lie there too; the bundle names its own.
        bundle = (built / "worker.cjs").read_text("ascii")
        types = [path for path in built.glob("proto-*.txt") if path.name in bundle]
        files = sorted([*built.glob("*.cjs"), *types, built / "THIRD-PARTY.txt"])
        # A source distribution has it where the checkout has it, so that a wheel can be built from it without npm.
        to = "wa_orchestrator/worker" if self.target_name == "wheel" else "worker/dist"
        build_data["force_include"] |= {str(path): f"{to}/{path.name}" for path in files}
