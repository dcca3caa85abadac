"""Images without a registry: file systems that are packed on the spot."""

import io
import re
import subprocess
import tarfile
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiodocker import Docker

from wa_orchestrator.runner.node_command import BUILT_BUNDLE, node_binary


@asynccontextmanager
async def imported(docker: Docker, packed: bytes, **how: str) -> AsyncIterator[str]:
    """An image made of a file system, with a name of its own; it is gone afterwards."""
    name = f"wa-orchestrator-test-{uuid.uuid4().hex[:12]}"
    await import_image(docker, packed, name, **how)
    try:
        yield f"{name}:latest"
    finally:
        await docker.images.delete(f"{name}:latest", force=True)


async def import_image(docker: Docker, packed: bytes, name: str, **how: str) -> None:
    """Make an image of a file system."""
    async with docker._query(
        "images/create", "POST", params={"fromSrc": "-", "repo": name, "tag": "latest", **how},
        data=packed, headers={"Content-Type": "application/x-tar"},
    ) as answer:  # fmt: skip
        await answer.read()


def empty_directories() -> bytes:
    """The file system of an image into which the machine's own /usr is mounted."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in ("usr", "app", "app/session", "run", "run/secrets", "run/ca", "tmp", "etc"):
            tar.addfile(_directory(name))
        for name in ("bin", "lib", "lib64"):
            tar.addfile(_link(name, f"usr/{name}"))
    return packed.getvalue()


def packed_worker() -> bytes:
    """A whole file system for the worker, without a registry."""
    node = node_binary()
    needed = re.findall(r"(/\S+) \(0x", subprocess.check_output(["ldd", node], text=True))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", dereference=True) as tar:
        tar.add(node, "usr/bin/node")
        for library in needed:
            tar.add(library, library.lstrip("/"))
        tar.add(
            BUILT_BUNDLE.parent, "app/worker", filter=lambda entry: None if entry.name.endswith(".cache") else entry
        )
        for name in ("run/secrets", "run/ca", "etc"):
            tar.addfile(_directory(name))
        for name in ("app/session", "tmp"):  # as in the product's image
            tar.addfile(_directory(name, 0o1777))
    return packed.getvalue()


def _directory(name: str, mode: int = 0o755) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    return entry


def _link(name: str, target: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    return entry
