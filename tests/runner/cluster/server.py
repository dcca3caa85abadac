"""The stand-in's API server over HTTP: lists, watches, creates and deletes as the real one does, and refuses as it does."""

import asyncio
import base64
import contextlib
import json
import socket
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import kubernetes_validate
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.runner.cluster.nodes import Nodes
from tests.runner.cluster.objects import Body, Refusal, Store

#: The version whose schemas every object must keep.
VERSION = "1.33"
TOKEN = "the-token-of-a-service-account"


@dataclass
class Cluster:
    """The API server with its nodes."""

    home: Path
    store: Store = field(default_factory=Store)
    nodes: Nodes = field(init=False)
    requests: list[str] = field(default_factory=list)
    cut: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.nodes = Nodes(self.store, self.home, ["node-a", "node-b"])

    @property
    def app(self) -> Starlette:
        several, one = ("GET", "POST"), ("GET", "DELETE")
        paths = ("/api/v1/namespaces/{space}/{plural}", "/apis/networking.k8s.io/v1/namespaces/{space}/{plural}")
        routes = [
            Route("/api/v1/{plural}", self.collection),
            Route("/api/v1/{plural}/{name}", self.patched, methods=["PATCH"]),
        ]
        for path in paths:
            routes += [Route(path, self.collection, methods=several), Route(path + "/{name}", self.single, methods=one)]
        return Starlette(routes=routes, exception_handlers={Refusal: _refuse})

    def cut_watches(self) -> None:
        """End all watches, as a restart of the API server does."""
        self.cut.set()
        self.cut = asyncio.Event()

    async def collection(self, request: Request) -> Response:
        self.requests.append(f"{request.method} {request.url}")
        _check_token(request)
        where, asked = _collection(request), request.query_params
        if request.method == "POST":
            return JSONResponse(self._create(where, await request.json()), 201)
        selector = dict(each.split("=", 1) for each in asked.get("labelSelector", "").split(",") if each)
        if "watch" not in asked:
            return JSONResponse(self.store.list(where, selector))
        return StreamingResponse(self._watch(where, selector, asked["resourceVersion"], float(asked["timeoutSeconds"])))

    async def single(self, request: Request) -> Response:
        self.requests.append(f"{request.method} {request.url}")
        _check_token(request)
        where, name = _collection(request), request.path_params["name"]
        found = self.store.get(where, name)
        if request.method == "DELETE":
            options = json.loads(await request.body() or b"{}")
            uid = options.get("preconditions", {}).get("uid", found["metadata"]["uid"])
            if uid != found["metadata"]["uid"]:
                raise Refusal(409, "Conflict", f"the UID in the precondition ({uid}) does not match")
            self.remove(where, name, options.get("gracePeriodSeconds", 30))
        return JSONResponse(found)

    async def patched(self, request: Request) -> Response:
        """Change an object's spec by a merge patch."""
        self.requests.append(f"{request.method} {request.url}")
        _check_token(request)
        if request.headers["content-type"] != "application/merge-patch+json":
            raise Refusal(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
        where, name = _collection(request), request.path_params["name"]
        spec = self.store.get(where, name).get("spec", {}) | (await request.json())["spec"]
        self.store.change(where, name, spec={field: value for field, value in spec.items() if value is not None})
        return JSONResponse(self.store.get(where, name))

    def remove(self, where: str, name: str, grace_s: int = 30) -> None:
        """Delete an object, and what it owns; Pods are ended by their nodes."""
        if where.endswith("/pods"):
            return self.nodes.end(where, name, grace_s)
        uid = self.store.get(where, name)["metadata"]["uid"]
        for kind, owned in self.store.owned(uid):
            self.remove(kind, owned)
        return self.store.remove(where, name)

    def _create(self, where: str, body: Body) -> Body:
        try:
            kubernetes_validate.validate(body, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            raise Refusal(422, "Invalid", str(error)) from error
        if "stringData" in body:
            texts = body.pop("stringData").items()
            body["data"] = {name: base64.b64encode(value.encode()).decode() for name, value in texts}
        made = self.store.create(where, body)
        if where.endswith("/pods"):
            self.nodes.take(where, made)
        return made

    async def _watch(self, where: str, selector: dict[str, str], since: str, within_s: float) -> AsyncIterator[str]:
        version, cut = int(since), self.cut
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while True:
                    news = self.store.news
                    try:
                        for each in self.store.since(version, where, selector):
                            yield json.dumps({"type": each.kind, "object": each.object}) + "\n"
                    except Refusal as error:
                        yield json.dumps({"type": "ERROR", "object": error.body}) + "\n"
                        return
                    version = self.store.version
                    await asyncio.wait(
                        [asyncio.ensure_future(news.wait()), asyncio.ensure_future(cut.wait())],
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    if cut.is_set():
                        return


def _collection(request: Request) -> str:
    space = request.path_params.get("space")
    return f"{space}/{request.path_params['plural']}" if space else str(request.path_params["plural"])


def _check_token(request: Request) -> None:
    if request.headers.get("authorization") != f"Bearer {TOKEN}":
        raise Refusal(401, "Unauthorized", "Unauthorized")


async def _refuse(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return JSONResponse(error.body, error.code)


@dataclass
class Running:
    """A stand-in that serves, in a thread and loop of its own."""

    cluster: Cluster
    url: str
    loop: asyncio.AbstractEventLoop

    def call(self, function: object, *given: object) -> object:
        """Call a method of the cluster in its own loop."""

        async def called() -> object:
            return function(*given)  # type: ignore[operator]

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(30)


#: The stand-in of this process; set by the fixture `cluster`.
_only: list[Running] = []


def only() -> Running:
    """The stand-in of the fixture `cluster`."""
    return _only[0]


@contextmanager
def served() -> Iterator[Running]:
    """Serve a cluster of two nodes."""
    listening = socket.create_server(("127.0.0.1", 0))
    started: list[Running] = []
    ready, ended = threading.Event(), threading.Event()

    async def serve() -> None:
        with tempfile.TemporaryDirectory(prefix="wa-cluster-") as home:
            cluster = Cluster(Path(home))
            config = uvicorn.Config(cluster.app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
            server = uvicorn.Server(config)
            port = listening.getsockname()[1]
            started.append(Running(cluster, f"http://127.0.0.1:{port}", asyncio.get_running_loop()))
            serving = asyncio.create_task(server.serve([listening]))
            ready.set()
            await asyncio.to_thread(ended.wait)
            server.should_exit = True
            await serving
            await cluster.nodes.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    _only[:] = started
    try:
        yield started[0]
    finally:
        ended.set()
        thread.join()
