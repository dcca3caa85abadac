"""Generates a client from an OpenAPI document, as an integrator would."""

import os
import subprocess
import sys
from pathlib import Path


def generate_client(home: Path, name: str) -> None:
    """Generate the package `name` from `openapi.json` in `home`; a warning is a failure."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}  # formats with ruff
    command = (sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json", "--meta", "none")
    done = subprocess.run(
        (*command, "--output-path", name, "--fail-on-warning"),
        cwd=home, env=env, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
