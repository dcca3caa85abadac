"""The address that a server publishes for commands on the same machine."""

from pathlib import Path

import pytest

from wa_orchestrator.server import address
from wa_orchestrator.settings import Settings


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:3001"),
        ("0.0.0.0", "http://127.0.0.1:3001"),
        ("::", "http://[::1]:3001"),
        ("::1", "http://[::1]:3001"),
        ("wa.example.com", "http://wa.example.com:3001"),
    ],
)
def test_the_local_url_is_one_that_clients_can_connect_to(host: str, url: str) -> None:
    assert Settings(bind_host=host).local_url == url


def test_a_newer_servers_address_stays_when_the_older_one_ends(tmp_path: Path) -> None:
    first, second = (Settings(data_dir=tmp_path, orch_port=port) for port in (4001, 4002))
    with address.published(first):
        assert address.find(tmp_path) == "http://127.0.0.1:4001"
        after = address.published(second)
        after.__enter__()
    assert address.find(tmp_path) == "http://127.0.0.1:4002"
    after.__exit__(None, None, None)
    assert address.find(tmp_path) is None
