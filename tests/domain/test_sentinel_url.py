"""Addresses of a Redis that Sentinels watch."""

import pytest

from wa_orchestrator.domain.sentinel_url import BadSentinelUrl, SentinelUrl, is_sentinel_url, parse


def test_an_address_names_its_sentinels_their_service_and_the_password_of_redis() -> None:
    url = "redis+sentinel://app:p%40ss@one.example.com:26380,two.example.com,[::1]:26381/wa/2?sentinel_password=other"
    assert parse(url) == SentinelUrl(
        sentinels=(("one.example.com", 26380), ("two.example.com", 26379), ("::1", 26381)),
        service="wa",
        database=2,
        username="app",
        password="p@ss",
        sentinel_password="other",
    )


def test_what_is_left_out_has_its_default_and_tls_is_part_of_the_scheme() -> None:
    assert parse("rediss+sentinel://one.example.com/wa") == SentinelUrl(
        (("one.example.com", 26379),), "wa", is_tls=True
    )


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("redis+sentinel://one.example.com", "names no service"),
        ("redis+sentinel:///wa", "names no Sentinel"),
        ("redis+sentinel://one.example.com,,two.example.com/wa", "names no Sentinel"),
        ("redis+sentinel://one.example.com:99999/wa", "port"),
        ("redis+sentinel://one.example.com/wa/first", "database"),
        ("redis+sentinel://one.example.com/wa?db=1", "not known: db"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_the_reason(url: str, problem: str) -> None:
    with pytest.raises(BadSentinelUrl, match=problem):
        parse(url)


def test_a_password_is_in_no_error_and_in_no_representation() -> None:
    with pytest.raises(BadSentinelUrl) as refused:
        parse("redis+sentinel://:hidden-word@one.example.com")
    assert "hidden-word" not in str(refused.value)
    assert "hidden-word" not in repr(parse("redis+sentinel://:hidden-word@one.example.com/wa"))


def test_the_address_of_one_redis_names_no_sentinels() -> None:
    assert not is_sentinel_url("redis://localhost:6379/0")
    assert is_sentinel_url("redis+sentinel://one.example.com/wa")
