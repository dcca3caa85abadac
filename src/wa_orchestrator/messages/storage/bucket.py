"""Files in a bucket of an S3-compatible store.

An object's time cannot be set, so a time that a file was given is a marker: an empty object `<name>@<seconds>`. The
latest one counts. Two machines that give a file two times at the same moment write two markers, and none is lost.
"""

import asyncio
import io
import math
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from wa_orchestrator import object_store
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.messages.storage.contract import StoredFile
from wa_orchestrator.object_store import Bucket

T = TypeVar("T")
_CHUNK: Final = 256 * 1024
#: Files are sent in parts of this size, so that one part at a time is in memory.
_PART: Final = 8 * 1024 * 1024
_MARK: Final = "@"
_HOUR_S: Final = 3600
#: After that nobody is still at it: no transfer takes that long.
_ABANDONED_S: Final = 24 * 3600
#: Threads of their own: a store that hangs must not take those in which the archive is read.
_THREADS: Final = ThreadPoolExecutor(16, "object-store")

log = structlog.get_logger(__name__)


class BucketStore:
    """The names in a bucket that begin with its prefix and this store's own folder."""

    def __init__(self, bucket: Bucket, folder: str) -> None:
        self._bucket = bucket
        self._prefix = f"{bucket.prefix}{folder}/"

    async def put(self, source: Path, name: str, *, at: float | None = None) -> None:
        """See the contract. The marker comes first: a file without its time would be taken for an old one."""
        if at is not None:
            await self.touch(name, at)

        def move(store: Any) -> None:
            store.fput_object(*self._at(name), str(source), part_size=_PART)
            source.unlink(missing_ok=True)

        await self._call(move)

    async def touch(self, name: str, at: float) -> None:
        """See the contract. Whole hours, rounded up: a file of a thousand messages needs no thousand markers."""
        marker = f"{name}{_MARK}{math.ceil(at / _HOUR_S) * _HOUR_S}"
        await self._call(lambda store: store.put_object(*self._at(marker), io.BytesIO(), 0))

    async def rename(self, name: str, new: str) -> None:
        """See the contract."""
        from minio.commonconfig import CopySource

        source = CopySource(*self._at(name))
        await self._call(lambda store: store.copy_object(*self._at(new), source))
        await self.remove(name)

    async def remove(self, name: str) -> None:
        """See the contract. The file goes last: markers without one would be forgotten."""
        for marker, _, _ in await self._objects(name + _MARK):
            await self._drop(marker)
        await self._drop(name)

    async def find(self, name: str) -> StoredFile | None:
        """See the contract."""
        return next((each for each in self._folded(await self._objects(name)) if each.name == name), None)

    async def listed(self) -> list[StoredFile]:
        """See the contract."""
        return self._folded(await self._objects(""))

    async def read(self, name: str, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """See the contract."""
        if length == 0:
            return
        answer = await self._call(lambda store: store.get_object(*self._at(name), start, length or 0))
        try:
            while chunk := await self._call(lambda _: answer.read(_CHUNK)):
                yield chunk
        finally:
            _THREADS.submit(_hang_up, answer)

    @asynccontextmanager
    async def on_disk(self, name: str) -> AsyncIterator[Path]:
        """See the contract."""
        with tempfile.TemporaryDirectory(prefix="stored-file-") as directory:
            path = Path(directory) / "file"
            with path.open("wb") as file:
                async for chunk in self.read(name):
                    await asyncio.to_thread(file.write, chunk)
            yield path

    async def tidy(self) -> None:
        """See the contract: parts of files whose sending was cut off, and markers whose file never came."""
        until = time.time() - _ABANDONED_S
        await self._call(lambda store: self._abort(store, until))
        objects = await self._objects("")
        files = {name for name, _, _ in objects}
        for name, _, at in objects:
            if at < until and _MARK in name and name.rpartition(_MARK)[0] not in files:
                await self._drop(name)

    def _abort(self, store: Any, until: float) -> None:
        # The library has no public call for either.
        for each in store._list_multipart_uploads(self._bucket.name, prefix=self._prefix).uploads:
            if _seconds(each.initiated_time) < until:
                store._abort_multipart_upload(self._bucket.name, each.object_name, each.upload_id)

    def _folded(self, objects: list[tuple[str, int, float]]) -> list[StoredFile]:
        given: dict[str, float] = {}
        for name, _, _ in objects:
            file, mark, at = name.rpartition(_MARK)
            if mark:
                given[file] = max(given.get(file, 0.0), float(at))
        files = [each for each in objects if _MARK not in each[0]]
        return [StoredFile(self, name, size, given.get(name, at)) for name, size, at in files]

    async def _drop(self, name: str) -> None:
        await self._call(lambda store: store.remove_object(*self._at(name)))

    async def _objects(self, beginning: str) -> list[tuple[str, int, float]]:
        """Return name, size and time of all objects, markers included, whose name begins like this."""

        def ask(store: Any) -> list[tuple[str, int, float]]:
            found = store.list_objects(self._bucket.name, prefix=self._prefix + beginning)
            cut = len(self._prefix)
            return [(str(each.object_name)[cut:], int(each.size or 0), _seconds(each.last_modified)) for each in found]

        return await self._call(ask)

    def _at(self, name: str) -> tuple[str, str]:
        return self._bucket.name, self._prefix + name

    async def _call(self, ask: Callable[[Any], T]) -> T:
        def run() -> T:
            with object_store.translated():
                return ask(object_store.client(self._bucket))

        try:
            return await asyncio.get_running_loop().run_in_executor(_THREADS, run)
        except FileNotFoundError:
            raise
        except OSError as error:
            log.warning("file_store.failed", error=str(error))
            text = "The store of files does not answer. Try again; if it goes on, the operator checks MEDIA_S3_URL."
            raise Unavailable("FILE_STORE_UNAVAILABLE", text) from error


def _hang_up(answer: Any) -> None:
    answer.close()
    answer.release_conn()


def _seconds(moment: datetime | None) -> float:
    return (moment or datetime.now(UTC)).timestamp()
