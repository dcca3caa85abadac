"""The worker's own unit tests and its type check, as one run of each."""

import asyncio
import os

import pytest

from tests.worker.harness import NODE, ROOT

WORKER = ROOT / "worker"


async def run(*command: str) -> tuple[int, str]:
    environment = {**os.environ, "PATH": f"{NODE.parent}:{os.environ['PATH']}"}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=WORKER, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return await process.wait(), output.decode()


@pytest.mark.parametrize("name", sorted(path.name for path in (WORKER / "test").glob("*.test.ts")))
async def test_the_unit_tests_of_the_worker_pass(name: str) -> None:
    code, output = await run(str(NODE), "--test", f"test/{name}")
    assert code == 0, output


async def test_the_worker_is_well_typed() -> None:
    code, output = await run(str(NODE), "node_modules/typescript/bin/tsc", "--noEmit")
    assert code == 0, output


async def test_the_lock_file_holds_a_hash_for_every_package_and_no_address_to_fetch_it_from() -> None:
    lock = (WORKER / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    packages = lock.count('"node_modules/')
    assert packages > 50
    assert lock.count('"integrity"') == packages
