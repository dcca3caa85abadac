"""The few calls of the Kubernetes API that the driver needs: create, get, list, patch, delete and watch, over HTTP.

A client library would bring thousands of types for six verbs of four kinds.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from types import MappingProxyType
from typing import Any, Final

import httpx

from wa_orchestrator.errors import Unavailable
from wa_orchestrator.runner.kubernetes.access import ClusterAccess

PODS, SECRETS = "/api/v1/namespaces/{}/pods", "/api/v1/namespaces/{}/secrets"
POLICIES: Final = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"
NODES: Final = "/api/v1/nodes"
NOT_FOUND, CONFLICT, GONE = 404, 409, 410
_ANSWER_S: Final = 30.0
#: After this time the server ends a watch, and we begin the next one where it ended. A dead line is noticed soon after.
WATCH_S: Final = 60


class KubernetesError(Exception):
    """The API server refused; `status` is that of HTTP, `text` is its sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status
        self.text = text


class KubernetesApi:
    """A client for one namespace. Errors of the line, and those that a later attempt may cure, are `Unavailable`."""

    def __init__(self, client: httpx.AsyncClient, access: ClusterAccess) -> None:
        self._client = client
        self._access = access

    async def create(self, collection: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self._ask("POST", self._path(collection), json=body)

    async def get(self, collection: str, name: str) -> dict[str, Any]:
        return await self._ask("GET", f"{self._path(collection)}/{name}")

    async def list(self, collection: str, selector: str = "") -> dict[str, Any]:
        params = {"labelSelector": selector} if selector else {}
        return await self._ask("GET", self._path(collection), params=params)

    async def patch(self, collection: str, name: str, change: Mapping[str, Any]) -> None:
        """Change fields of an object; those with null are taken away."""
        headers = {"Content-Type": "application/merge-patch+json"}
        await self._ask("PATCH", f"{self._path(collection)}/{name}", headers, content=json.dumps(change))

    async def delete(self, collection: str, name: str, *, grace_s: int, uid: str) -> None:
        """Delete the object of that name if it is the one with this uid."""
        options = {"gracePeriodSeconds": grace_s, "preconditions": {"uid": uid}}
        await self._ask("DELETE", f"{self._path(collection)}/{name}", json=options)

    async def watch(self, collection: str, since: str, selector: str = "") -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Yield kind and object of every change after the resource version `since`, until the server ends the watch."""
        params = {"watch": "1", "resourceVersion": since, "timeoutSeconds": str(WATCH_S), "allowWatchBookmarks": "true"}
        if selector:
            params["labelSelector"] = selector
        timeout = httpx.Timeout(_ANSWER_S, read=WATCH_S + _ANSWER_S)
        with _line_errors():
            async with self._client.stream(
                "GET", self._path(collection), params=params, headers=self._headers(), timeout=timeout
            ) as answer:
                if answer.is_error:
                    await answer.aread()
                    _raise_for(answer)
                async for line in answer.aiter_lines():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise KubernetesError(
                            int(event["object"].get("code", 500)), str(event["object"].get("message", ""))
                        )
                    yield event["type"], event["object"]

    async def _ask(
        self, method: str, path: str, headers: Mapping[str, str] = MappingProxyType({}), **how: Any
    ) -> dict[str, Any]:
        with _line_errors():
            told_with = {**headers, **self._headers()}
            answer = await self._client.request(method, path, headers=told_with, timeout=_ANSWER_S, **how)
            if answer.is_error:
                _raise_for(answer)
            told: dict[str, Any] = answer.json()
            return told

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}"} if (token := self._access.token) else {}

    def _path(self, collection: str) -> str:
        return collection.format(self._access.namespace)


@asynccontextmanager
async def opened(access: ClusterAccess) -> AsyncIterator[KubernetesApi]:
    """Open a client."""
    verify = access.tls if access.tls is not None else True
    async with httpx.AsyncClient(base_url=access.url, verify=verify, trust_env=False) as client:
        yield KubernetesApi(client, access)


@contextmanager
def _line_errors() -> Iterator[None]:
    """Raise `Unavailable` for an API server that does not answer, or not as one."""

    try:
        yield
    except (httpx.HTTPError, OSError, json.JSONDecodeError) as error:
        raise _unavailable(f"does not respond: {error or type(error).__name__}") from error


def _unavailable(text: str) -> Unavailable:
    return Unavailable("KUBERNETES_UNAVAILABLE", f"The Kubernetes API server {text}")


def _raise_for(answer: httpx.Response) -> None:
    try:
        text = str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        text = answer.text[:200]
    # 401 and 403: somebody has to give the server its rights; no session is to blame.
    if answer.status_code in (401, 403, 429) or answer.is_server_error:
        raise _unavailable(f"refuses ({answer.status_code}): {text}")
    raise KubernetesError(answer.status_code, text)
