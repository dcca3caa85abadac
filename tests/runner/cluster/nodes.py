"""The stand-in's nodes: they take Pods, wait for their Secrets, run their containers as processes, and end them."""

import asyncio
import base64
import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.runner.cluster.objects import Body, Refusal, Store

#: An image that no node has.
MISSING_IMAGE = "nowhere.invalid/none:latest"


class Nodes:
    """All nodes of the cluster."""

    def __init__(self, store: Store, home: Path, names: list[str]) -> None:
        self._store = store
        self._home = home
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._names = names
        self.away: set[str] = set()
        self.back = asyncio.Event()
        for name in names:
            store.create("nodes", {"kind": "Node", "metadata": {"name": name}, "status": _ready("True")})

    def lose(self, name: str) -> None:
        """Nobody hears from a node any more; what runs there runs on."""
        self.away.add(name)
        self._store.change("nodes", name, status=_ready("Unknown"))

    def find(self, name: str) -> None:
        """A node is back: it ends what was deleted meanwhile."""
        self.away.discard(name)
        self._store.change("nodes", name, status=_ready("True"))
        self.back.set()
        self.back = asyncio.Event()

    def take(self, collection: str, pod: Body) -> None:
        """Run a Pod."""
        self._begin(self._run(collection, pod))

    def end(self, collection: str, name: str, grace_s: int) -> None:
        """Delete a Pod: at once from the records with 0, else when its node has ended it."""
        pod = self._store.get(collection, name)
        if grace_s == 0:
            self._store.remove(collection, name)
        elif "deletionTimestamp" not in pod["metadata"]:
            stamped = pod["metadata"] | {
                "deletionTimestamp": pod["metadata"]["creationTimestamp"],
                "deletionGracePeriodSeconds": grace_s,
            }
            self._store.change(collection, name, metadata=stamped)
        self._begin(self._end(collection, pod, grace_s))

    async def close(self) -> None:
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for process in self._processes.values():
            _signal(process, signal.SIGKILL)
            await process.wait()

    def runs(self, uid: str) -> bool:
        """Whether a Pod's process runs, whatever the records say."""
        process = self._processes.get(uid)
        return process is not None and process.returncode is None

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, collection: str, pod: Body) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        wanted = _chosen(pod["spec"])
        nodes = [each for each in self._names if each not in self.away | self._cordoned() and wanted in (None, each)]
        if not nodes:
            unplaced = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
            return self._say(collection, name, uid, phase="Pending", conditions=[unplaced])
        self._store.change(collection, name, spec=pod["spec"] | {"nodeName": nodes[0]})
        if pod["spec"]["containers"][0]["image"] == MISSING_IMAGE:
            waiting = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
            return self._say(collection, name, uid, phase="Pending", containerStatuses=[{"state": waiting}])
        files = await self._secret(collection, pod)
        await self._until_back(nodes[0])  # or it does not learn of the Secret
        if files is None or await self._secret(collection, pod) is None:
            return None
        process = await self._spawn(pod, files)
        self._processes[uid] = process
        self._say(collection, name, uid, phase="Running", containerStatuses=[{"state": {"running": {}}}])
        code = await process.wait()
        await self._until_back(nodes[0])
        ended = {"terminated": {"exitCode": code if code >= 0 else 128 - code}}
        phase = "Succeeded" if code == 0 else "Failed"
        return self._say(collection, name, uid, phase=phase, containerStatuses=[{"state": ended}])

    def _cordoned(self) -> set[str]:
        listed: Any = self._store.list("nodes", {})["items"]
        return {each["metadata"]["name"] for each in listed if each.get("spec", {}).get("unschedulable")}

    async def _secret(self, collection: str, pod: Body) -> Mapping[str, str] | None:
        """The files of the Pod's Secret, as soon as there is one; None if the Pod is gone before."""
        named = next(each["secret"]["secretName"] for each in pod["spec"]["volumes"] if "secret" in each)
        while True:
            with contextlib.suppress(Refusal):
                secret = self._store.get(collection.replace("/pods", "/secrets"), named)
                return {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}
            try:
                current = self._store.get(collection, pod["metadata"]["name"])
            except Refusal:
                return None
            if current["metadata"]["uid"] != pod["metadata"]["uid"] or "deletionTimestamp" in current["metadata"]:
                return None
            await self._store.news.wait()

    async def _spawn(self, pod: Body, files: Mapping[str, str]) -> asyncio.subprocess.Process:
        """Run the container as a process; where it has a volume, its variables lead to a directory."""
        container = pod["spec"]["containers"][0]
        places = {
            each["mountPath"]: self._home / pod["metadata"]["uid"] / each["name"] for each in container["volumeMounts"]
        }
        for place in places.values():
            place.mkdir(parents=True)
        for name, value in files.items():
            (places["/run/secrets"] / name).write_text(value)
        environment = {each["name"]: _translated(each["value"], places) for each in container["env"]}
        command = [*container.get("command", ()), *container.get("args", ())]
        return await asyncio.create_subprocess_exec(
            *command, env={"PATH": os.environ["PATH"], **environment}, start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip

    async def _end(self, collection: str, pod: Body, grace_s: int) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        await self._until_back(pod["spec"].get("nodeName", ""))
        if (process := self._processes.get(uid)) is not None:
            _signal(process, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await process.wait()
            _signal(process, signal.SIGKILL)
            await process.wait()
        with contextlib.suppress(Refusal):
            if self._store.get(collection, name)["metadata"]["uid"] == uid:
                self._store.remove(collection, name)

    async def _until_back(self, node: str) -> None:
        while node in self.away:
            await self.back.wait()

    def _say(self, collection: str, name: str, uid: str, **status: Any) -> None:
        with contextlib.suppress(Refusal):
            if self._store.get(collection, name)["metadata"]["uid"] == uid:
                self._store.change(collection, name, status=status)


def _chosen(spec: Body) -> str | None:
    """The name of the node that a Pod's affinity demands."""
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": []})
    fields = [field for term in required["nodeSelectorTerms"] for field in term["matchFields"]]
    return next((str(each["values"][0]) for each in fields if each["key"] == "metadata.name"), None)


def _ready(status: str) -> Body:
    return {"conditions": [{"type": "Ready", "status": status}], "allocatable": {"memory": "8Gi"}}


def _translated(value: str, places: Mapping[str, Path]) -> str:
    for inside, outside in places.items():
        if value == inside or value.startswith(f"{inside}/"):
            return f"{outside}{value.removeprefix(inside)}"
    return value


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
