"""Proxy URLs are parsed strictly, proxies are chosen by load, and are bad after checks and strikes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain import proxy, proxy_url
from wa_orchestrator.domain.proxy import (
    Health,
    Load,
    MarkBad,
    ProxyStatus,
    Strike,
    after_check,
    judge,
    ranked,
)
from wa_orchestrator.domain.proxy_url import BadProxyUrl, ProxyUrl


@pytest.mark.parametrize(
    ("text", "host", "port", "user", "password"),
    [
        ("socks5h://proxy.example.com", "proxy.example.com", 1080, None, None),
        ("socks5h://proxy.example.com:9000", "proxy.example.com", 9000, None, None),
        (" SOCKS5H://Proxy.Example.COM.:9000/ ", "proxy.example.com", 9000, None, None),
        ("socks5h://user:secret@10.0.0.1:1081", "10.0.0.1", 1081, "user", "secret"),
        ("socks5h://user@10.0.0.1", "10.0.0.1", 1080, "user", None),
        ("socks5h://user:@10.0.0.1", "10.0.0.1", 1080, "user", ""),
        ("socks5h://@10.0.0.1", "10.0.0.1", 1080, None, None),
        ("socks5h://us%40er:p%3Aa%2Fss@[2001:DB8::0:1]:1", "2001:db8::1", 1, "us@er", "p:a/ss"),
        ("socks5h://user:a:b@host", "host", 1080, "user", "a:b"),
    ],
)
def test_a_proxy_url_is_parsed_in_every_spelling(
    text: str, host: str, port: int, user: str | None, password: str | None
) -> None:
    assert proxy_url.parse(text) == ProxyUrl(host, port, user, password)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "begins with socks5h://"),
        ("proxy.example.com:1080", "begins with socks5h://"),
        ("socks5://u:canary@proxy.example.com", "DNS leak"),
        ("http://u:canary@proxy.example.com", "DNS leak"),
        ("ftp://u:canary@proxy.example.com", "no proxy we can use"),
        ("socks5h://", "host is missing"),
        ("socks5h://u:canary@:1080", "host is missing"),
        ("socks5h://[]:1080", "host is missing"),
        ("socks5h://[canary]:1080", "no IPv6"),
        ("socks5h://host:0", "1 to 65535"),
        ("socks5h://host:65536", "1 to 65535"),
        ("socks5h://host:", "1 to 65535"),
        ("socks5h://host:٨٠", "1 to 65535"),
        ("socks5h://2001:db8::1:1080", "nothing after them"),
        ("socks5h://host:1080/path", "nothing after them"),
        ("socks5h://host?x=canary", "nothing after them"),
        ("socks5h://ho st:1080", "no name and no address"),
        ("socks5h://-host", "no name and no address"),
        ("socks5h://:canary@host", "needs a user"),
        ("socks5h://u:can/ary@host", "percent-encoded"),
        ("socks5h://u:can@ary@host", "percent-encoded"),
        ("socks5h://u:" + "x" * 256 + "@host", "at most 255 bytes"),
    ],
)
def test_a_proxy_that_may_not_be_used_is_refused_with_its_reason_and_without_its_password(text: str, says: str) -> None:
    with pytest.raises(BadProxyUrl) as refusal:
        proxy_url.parse(text)
    assert says in str(refusal.value)
    assert "canary" not in str(refusal.value)
    assert refusal.value.code == "BAD_PROXY_URL"


names = st.text(min_size=1, max_size=12).filter(lambda name: "\udc80" not in name)
addresses = st.builds(
    ProxyUrl,
    host=st.sampled_from(["proxy.example.com", "10.1.2.3", "2001:db8::1"]),
    port=st.integers(1, 65535),
    user=names,
    password=st.none() | names,
)


@quick
@given(addresses)
def test_a_canonical_url_parses_as_the_same_proxy(address: ProxyUrl) -> None:
    assert proxy_url.parse(address.url) == address
    assert proxy_url.proxy_id(address.url) == address.id
    assert len(address.id) == 12


@quick
@given(st.text(alphabet="abcdefghij", min_size=8, max_size=20))
def test_a_password_is_neither_shown_nor_printed(password: str) -> None:
    address = ProxyUrl("host.test", 1080, "user", password)
    assert address.masked == proxy_url.masked(address.url) == "socks5h://user:***@host.test:1080"
    assert password not in repr(address)


def test_characters_that_would_break_a_url_are_percent_encoded() -> None:
    address = ProxyUrl("host.test", 1080, "u@:", "p@/:#?%")
    assert address.url == "socks5h://u%40%3A:p%40%2F%3A%23%3F%25@host.test:1080"
    assert proxy_url.parse(address.url) == address


def test_an_invalid_url_is_masked_completely() -> None:
    assert proxy_url.masked("socks5://user:canary@host") == "***"


def test_spellings_of_one_proxy_share_an_id_and_other_passwords_do_not() -> None:
    assert proxy_url.proxy_id("socks5h://u:p@Host.test") == proxy_url.proxy_id("socks5h://u:%70@host.test:1080/")
    assert proxy_url.proxy_id("socks5h://u:p@host.test") != proxy_url.proxy_id("socks5h://u:q@host.test")


@pytest.mark.parametrize(
    ("loads", "order"),
    [
        ([], []),
        ([Load("p_a", 2), Load("p_b", 1)], ["p_b", "p_a"]),
        ([Load("p_b", 1), Load("p_a", 1)], ["p_a", "p_b"]),
        ([Load("p_a", 0, healthy=False), Load("p_b", 3)], ["p_b"]),
        ([Load("p_a", 4), Load("p_b", 5)], []),
    ],
)
def test_the_least_loaded_healthy_proxy_with_room_comes_first(loads: list[Load], order: list[str]) -> None:
    assert ranked(loads, 4) == order


@quick
@given(
    st.lists(
        st.builds(Load, st.text("abc", min_size=1, max_size=3), st.integers(0, 6), st.booleans()),
        unique_by=lambda load: load.proxy_id,
    ),
    st.integers(1, 5),
    st.integers(0, 20),
)
def test_no_proxy_is_ever_filled_above_its_limit(loads: list[Load], most: int, sessions: int) -> None:
    slots = {load.proxy_id: load for load in loads}
    for _ in range(sessions):
        if not (with_room := ranked(slots.values(), most)):
            break
        chosen = with_room[0]
        assert slots[chosen].healthy
        slots[chosen] = Load(chosen, slots[chosen].sessions + 1)
        assert slots[chosen].sessions <= most


NOW = 10_000_000


@pytest.mark.parametrize(
    ("passed", "strikes", "is_bad"),
    [
        (False, [], True),
        (True, [], False),
        (True, [NOW - 299_999], True),
        (True, [NOW - 300_000], False),
        (True, [NOW - 900_000, NOW - 1], True),
    ],
)
def test_a_proxy_is_bad_when_it_fails_our_check_or_strikes_twice_in_five_minutes(
    passed: bool, strikes: list[int], is_bad: bool
) -> None:
    verdict = judge(check_passed=passed, strikes_at_ms=strikes, now_ms=NOW)
    assert isinstance(verdict, MarkBad) is is_bad
    if isinstance(verdict, Strike):
        assert verdict.strikes_at_ms == (NOW,)


@quick
@given(st.lists(st.booleans(), max_size=12))
def test_a_bad_proxy_comes_back_only_after_three_good_checks_in_a_row(checks: list[bool]) -> None:
    health = Health()
    for seen, passed in enumerate(checks, start=1):
        was = health.status
        health = after_check(health, passed=passed)
        if not passed:
            assert health.status is ProxyStatus.BAD
        elif was is ProxyStatus.BAD and health.status is ProxyStatus.OK:
            assert checks[seen - 3 : seen] == [True] * 3


def test_checks_of_a_bad_proxy_grow_rarer_up_to_a_cap() -> None:
    gaps = [proxy.next_check_ms(bad, 30_000) for bad in (0, 1, 2, 6, 60)]
    assert gaps == [30_000, 60_000, 120_000, 1_920_000, 1_920_000]
