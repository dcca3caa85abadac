"""What the stand-in's API server keeps: objects with resource versions, and every change for those who watch."""

import asyncio
import copy
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Body = dict[str, Any]
#: Changes that the stand-in remembers: who asks for older ones is told 410, and lists anew.
REMEMBERED = 1000


class Refusal(Exception):  # noqa: N818 - an answer of the API server
    """An answer with a status of its own."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message

    @property
    def body(self) -> Body:
        said = {"code": self.code, "reason": self.reason, "message": self.message}
        return {"kind": "Status", "apiVersion": "v1", "status": "Failure", **said}


@dataclass
class Change:
    version: int
    kind: str
    collection: str
    object: Body


@dataclass
class Store:
    """All objects of the cluster, by collection (`namespace/plural`) and name."""

    objects: dict[tuple[str, str], Body] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    version: int = 1
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def create(self, collection: str, body: Body) -> Body:
        name = body["metadata"]["name"]
        if (collection, name) in self.objects:
            raise Refusal(409, "AlreadyExists", f'{collection} "{name}" already exists')
        made = copy.deepcopy(body)
        made["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": _now()}
        self._put(collection, made, "ADDED")
        return self.get(collection, name)

    def get(self, collection: str, name: str) -> Body:
        if (found := self.objects.get((collection, name))) is None:
            raise Refusal(404, "NotFound", f'{collection} "{name}" not found')
        return copy.deepcopy(found)

    def list(self, collection: str, selector: Mapping[str, str]) -> Body:
        found = [copy.deepcopy(each) for (kind, _), each in self.objects.items() if kind == collection]
        items = [each for each in found if chosen(each, selector)]
        return {"kind": "List", "metadata": {"resourceVersion": str(self.version)}, "items": items}

    def change(self, collection: str, name: str, **parts: Any) -> None:
        """Replace parts of an object, if it is still there."""
        if (found := self.objects.get((collection, name))) is not None:
            self._put(collection, copy.deepcopy(found) | parts, "MODIFIED")

    def remove(self, collection: str, name: str) -> None:
        """Remove an object with everything that it owns, except Pods: a node ends them first."""
        if (gone := self.objects.pop((collection, name), None)) is None:
            return
        self._tell(collection, gone, "DELETED")
        for kind, owned in self.owned(gone["metadata"]["uid"]):
            if not kind.endswith("/pods"):
                self.remove(kind, owned)

    def owned(self, uid: str) -> Sequence[tuple[str, str]]:
        """Collection and name of what belongs to an object."""
        return [key for key, each in self.objects.items() if owned_by(each, uid)]

    def since(self, version: int, collection: str, selector: Mapping[str, str]) -> Iterator[Change]:
        """The changes after a version; 410 if they are forgotten."""
        if self.changes and version < self.changes[0].version - 1:
            raise Refusal(410, "Expired", "too old resource version")
        for each in list(self.changes):
            if each.version > version and each.collection == collection and chosen(each.object, selector):
                yield each

    def forget_changes(self) -> None:
        """Forget what has changed until now, as a cluster does after some minutes."""
        del self.changes[:-1]

    def _put(self, collection: str, body: Body, kind: str) -> None:
        self.objects[collection, body["metadata"]["name"]] = body
        self._tell(collection, body, kind)

    def _tell(self, collection: str, body: Body, kind: str) -> None:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.changes.append(Change(self.version, kind, collection, copy.deepcopy(body)))
        del self.changes[:-REMEMBERED]
        self.news.set()
        self.news = asyncio.Event()


def chosen(body: Body, selector: Mapping[str, str]) -> bool:
    labels = body["metadata"].get("labels", {})
    return all(labels.get(name) == value for name, value in selector.items())


def owned_by(body: Body, uid: str) -> bool:
    return any(each["uid"] == uid for each in body["metadata"].get("ownerReferences", ()))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
