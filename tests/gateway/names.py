"""A name server for tests."""

from collections.abc import Sequence


class Names:
    """A name server of the test's own that counts how often it is asked."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.asked: list[str] = []

    async def __call__(self, host: str, _port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.addresses
