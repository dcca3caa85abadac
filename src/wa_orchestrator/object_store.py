"""Buckets of S3-compatible stores: the client, and its errors as OSError."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.parse import urlsplit

#: A store that is away must not hold up what waits for it: that fails, and is tried again later.
_CONNECT_S: Final = 10
_READ_S: Final = 60
#: Connections of one process to one store.
_CONNECTIONS: Final = 16


@dataclass(frozen=True, slots=True, repr=False)
class Bucket:
    """A place in a store: `name` is the bucket's, `prefix` the beginning of names in it. Equal ones share a client."""

    url: str
    access_key: str | None
    secret_key: str | None
    region: str | None

    @property
    def name(self) -> str:
        """The bucket's name."""
        return urlsplit(self.url).path.strip("/").partition("/")[0]

    @property
    def prefix(self) -> str:
        """The beginning of names: empty, or ending in a slash."""
        inside = urlsplit(self.url).path.strip("/").partition("/")[2]
        return f"{inside}/" if inside else ""

    def __repr__(self) -> str:
        """Return the address, without the keys."""
        return f"Bucket({self.url!r})"


@cache
def client(bucket: Bucket) -> Any:
    """Return the client of a bucket; it may be used by several threads."""
    import urllib3  # slow to import, and only where there is a store
    from minio import Minio

    address = urlsplit(bucket.url)
    timeout = urllib3.Timeout(connect=_CONNECT_S, read=_READ_S)
    pool = urllib3.PoolManager(timeout=timeout, retries=urllib3.Retry(2, backoff_factor=0.2), maxsize=_CONNECTIONS)
    return Minio(
        address.netloc, bucket.access_key, bucket.secret_key,
        secure=address.scheme == "https", region=bucket.region, http_client=pool,
    )  # fmt: skip


@contextmanager
def translated() -> Iterator[None]:
    """Raise what the store or the way to it refuses as OSError; a missing object as FileNotFoundError.

    The answers of a store do not name its secret key.
    """
    from minio.error import MinioException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except MinioException as error:
        code = getattr(error, "code", type(error).__name__)
        kind = FileNotFoundError if code == "NoSuchKey" else OSError
        raise kind(f"the store refused ({code})") from error
    except HTTPError as error:
        raise OSError(f"the store does not answer ({type(error).__name__})") from error
    except ValueError as error:  # such as a bucket's name that no store allows
        raise OSError(f"the store cannot be used ({error})") from error
