"""Watches Pods and nodes: one list, then every change as it happens, so that polls cost the cluster nothing."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog

from wa_orchestrator.errors import Unavailable
from wa_orchestrator.runner.kubernetes.api import GONE, NODES, PODS, KubernetesApi, KubernetesError
from wa_orchestrator.runner.kubernetes.node_state import is_away
from wa_orchestrator.runner.kubernetes.pod_state import PodState, workers_among

_RETRY_S: Final = 1.0
#: Pods that are known to be gone, whose last changes may still be on their way.
_REMEMBERED: Final = 4096

log = structlog.get_logger(__name__)


class ClusterWatch:
    """The Pods with a label and all nodes, as the cluster last told. Use `watching` to open one."""

    def __init__(self, api: KubernetesApi, selector: str) -> None:
        self._api = api
        self._selector = selector
        self._pods: dict[str, PodState] = {}
        self._away: dict[str, bool] = {}
        self._gone: deque[str] = deque(maxlen=_REMEMBERED)
        self._vanished: deque[str] = deque(maxlen=_REMEMBERED)
        """Pods that ran when they were last seen, and are gone."""
        self._in_sync: dict[str, bool] = {PODS: False, NODES: False}
        self._news = asyncio.Event()

    def pod(self, name: str, uid: str) -> PodState | None:
        """Return a Pod; None if it is gone. Raises `Unavailable` while the cluster does not tell."""
        if not all(self._in_sync.values()):
            raise Unavailable("KUBERNETES_UNAVAILABLE", "The Kubernetes API server does not tell of changes.")
        found = self._pods.get(name)
        return found if found is not None and found.uid == uid else None

    def vanished(self, uid: str) -> bool:
        """Whether a Pod is gone of which no node has said that it ended: somebody deleted it by force, for instance."""
        return uid in self._vanished

    def is_away(self, node: str) -> bool:
        """Whether nobody hears from a node."""
        return bool(node) and self._away.get(node, True)

    async def news(self, within_s: float) -> None:
        """Wait for a change, but not for longer than this."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._news.wait()

    def note(self, pod: PodState) -> None:
        """Take over what was answered to a question: the watch may tell it later."""
        if pod.uid not in self._gone:
            self._pods[pod.name] = pod

    def note_gone(self, name: str, uid: str) -> None:
        """Take over that a Pod is gone, and that whoever asks for it knows what became of its worker."""
        with contextlib.suppress(ValueError):
            self._vanished.remove(uid)
        self._forget(name, uid)

    def _forget(self, name: str, uid: str) -> None:
        if uid not in self._gone:
            self._gone.append(uid)
        if (known := self._pods.get(name)) is not None and known.uid == uid:
            del self._pods[name]

    async def run(self, collection: str) -> None:
        """Follow a collection for ever."""
        while True:
            try:
                since = await self._begin(collection)
                while True:
                    since = await self._follow(collection, since)
            except Exception as error:  # a watch that ended unseen would call the dead alive for ever
                # 410 is ordinary: the cluster forgets old changes, and we begin anew at once.
                if not isinstance(error, KubernetesError) or error.status != GONE:
                    self._in_sync[collection] = False
                    log.warning("kubernetes.watch_lost", collection=collection, error=str(error) or repr(error))
                    await asyncio.sleep(_RETRY_S)

    async def _begin(self, collection: str) -> str:
        before = {each.uid: each for each in self._pods.values()}
        listed = await self._api.list(collection, self._selector if collection == PODS else "")
        if collection == PODS:
            found = [each for each in workers_among(listed["items"]) if each.uid not in self._gone]
            left = {each.uid for each in found}
            self._vanished += [uid for uid, each in before.items() if each.runs and uid not in left | {*self._gone}]
            # What was asked for meanwhile may be younger than the list.
            younger = {name: each for name, each in self._pods.items() if each.uid not in before}
            self._pods = {each.name: each for each in found} | younger
        else:
            self._away = {each["metadata"]["name"]: is_away(each) for each in listed["items"]}
        self._in_sync[collection] = True
        self._tell()
        return str(listed["metadata"]["resourceVersion"])

    async def _follow(self, collection: str, since: str) -> str:
        """Follow changes until the server ends the watch; return where to go on."""
        selector = self._selector if collection == PODS else ""
        async for kind, changed in self._api.watch(collection, since, selector):
            since = str(changed["metadata"]["resourceVersion"])
            if kind != "BOOKMARK":
                self._take(collection, kind, changed)
                self._tell()
        return since

    def _take(self, collection: str, kind: str, changed: Mapping[str, Any]) -> None:
        name = changed["metadata"]["name"]
        match collection, kind:
            case str(each), "DELETED" if each == PODS:
                uid = changed["metadata"]["uid"]
                if uid not in self._gone and any(pod.runs for pod in workers_among([changed])):
                    self._vanished.append(uid)
                self._forget(name, uid)
            case _, "DELETED":
                self._away.pop(name, None)
            case str(each), _ if each == PODS:
                for pod in workers_among([changed]):
                    self.note(pod)
            case _:
                self._away[name] = is_away(changed)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


@asynccontextmanager
async def watching(api: KubernetesApi, selector: str) -> AsyncIterator[ClusterWatch]:
    """Open a watch. It knows everything that there is when the block begins, or `Unavailable` is raised."""
    watch = ClusterWatch(api, selector)
    try:
        for collection in (PODS, NODES):
            await watch._begin(collection)
    except KubernetesError as error:
        raise Unavailable("KUBERNETES_UNAVAILABLE", f"The Kubernetes API server refuses: {error}") from error
    following = [asyncio.create_task(watch.run(collection)) for collection in (PODS, NODES)]
    try:
        yield watch
    finally:
        for each in following:
            each.cancel()
        await asyncio.gather(*following, return_exceptions=True)
