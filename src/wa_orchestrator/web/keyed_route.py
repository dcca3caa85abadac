"""Routes whose requests are authenticated before their body is read: FastAPI does it the other way round."""

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

Check = Callable[[Request], Awaitable[object]]
"""Raises `Refused` for a request whose body is not worth reading."""
F = TypeVar("F", bound=Callable[..., Any])
_CHECK = "before_body"
_MOST = "max_body_bytes"


def before_body(check: Check, dependency: F) -> F:
    """Have a check made before the body of every request is read whose route depends on `dependency`."""
    setattr(dependency, _CHECK, check)
    return dependency


def longest_body(most: int) -> Callable[[F], F]:
    """Give a route a limit of its own for its body, in bytes."""

    def set_limit(endpoint: F) -> F:
        setattr(endpoint, _MOST, most)
        return endpoint

    return set_limit


def longest_body_of(endpoint: object, default: int) -> int:
    """Return the longest body of a route, by its endpoint."""
    return int(getattr(endpoint, _MOST, default))


class KeyedRoute(APIRoute):
    """A route that makes the checks of its dependencies first."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        checks = [getattr(each.call, _CHECK) for each in _all(self.dependant) if hasattr(each.call, _CHECK)]

        async def checked(request: Request) -> Response:
            for check in checks:
                await check(request)
            return await handle(request)

        return checked if checks else handle


def _all(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for inner in dependant.dependencies:
        yield from _all(inner)
