"""An S3-compatible store on this machine: a real server for the protocol."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
from minio import Minio
from moto.server import ThreadedMotoServer

SECRET = "canary-secret-of-the-store"


@dataclass
class ObjectStore:
    """A bucket, empty at first. `url` names a place in it."""

    url: str
    client: Minio
    bucket: str

    def names(self) -> list[str]:
        """Return the names of all objects."""
        return sorted(str(each.object_name) for each in self.client.list_objects(self.bucket, recursive=True))


@contextmanager
def object_store(place: str) -> Iterator[ObjectStore]:
    """Run a store with the bucket of this place."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    client, bucket = Minio(f"{host}:{port}", "wa", SECRET, secure=False), place.partition("/")[0]
    httpx.post(f"http://{host}:{port}/moto-api/reset")
    client.make_bucket(bucket)
    try:
        yield ObjectStore(f"http://{host}:{port}/{place}", client, bucket)
    finally:
        server.stop()
