"""Proxy URLs are parsed strictly, proxies are chosen by load, and are bad after checks and strikes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain.proxies import proxy_health, proxy_url
from wa_orchestrator.domain.proxies.proxy_choice import Load, ranked
from wa_orchestrator.domain.proxies.proxy_health import (
    CONDEMNED,
    Complaint,
    Evidence,
    Health,
    Patience,
    ProxyStatus,
    Verdict,
    after_check,
    judge,
    weigh_complaint,
)
from wa_orchestrator.domain.proxies.proxy_url import BadProxyUrl, ProxyUrl


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
        ("ftp://u:canary@proxy.example.com", "is not supported"),
        ("socks5h://", "host is missing"),
        ("socks5h://u:canary@:1080", "host is missing"),
        ("socks5h://[]:1080", "host is missing"),
        ("socks5h://[canary]:1080", "must contain an IPv6 address"),
        ("socks5h://host:0", "1 to 65535"),
        ("socks5h://host:65536", "1 to 65535"),
        ("socks5h://host:", "1 to 65535"),
        ("socks5h://host:٨٠", "1 to 65535"),
        ("socks5h://2001:db8::1:1080", "nothing after them"),
        ("socks5h://host:1080/path", "nothing after them"),
        ("socks5h://host?x=canary", "nothing after them"),
        ("socks5h://ho st:1080", "is not a valid name or address"),
        ("socks5h://-host", "is not a valid name or address"),
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


WELL = Evidence(passed=True, passed_at_ms=NOW - 30_000)
FAILED_BEFORE = Evidence(passed=False, passed_at_ms=NOW - 40_000, failing_since_ms=NOW - 10_000)


@pytest.mark.parametrize(
    ("each", "verdict"),
    [
        (WELL, Verdict.KEEP),
        (replace(WELL, passed=False), Verdict.SUSPECT),
        (replace(FAILED_BEFORE, failing_since_ms=NOW - 9_999), Verdict.SUSPECT),
        (FAILED_BEFORE, Verdict.FAILED_CHECK),
        # Traffic speaks for it, if nothing newer speaks against it.
        (replace(FAILED_BEFORE, traffic_at_ms=NOW - 9_999), Verdict.SUSPECT),
        (replace(FAILED_BEFORE, traffic_at_ms=NOW - 10_000), Verdict.FAILED_CHECK),
        (replace(FAILED_BEFORE, traffic_at_ms=NOW - 5_000, complaints_ms=[NOW - 4_000]), Verdict.FAILED_CHECK),
        (replace(FAILED_BEFORE, traffic_at_ms=NOW - 3_000, complaints_ms=[NOW - 4_000]), Verdict.SUSPECT),
        # A connected session that nobody complains about is heard within a minute, or the proxy is dead.
        (replace(FAILED_BEFORE, has_connected=True), Verdict.SUSPECT),
        (replace(FAILED_BEFORE, has_connected=True, failing_since_ms=NOW - 60_000), Verdict.FAILED_CHECK),
        (replace(FAILED_BEFORE, has_connected=True, complaints_ms=[NOW - 11_000]), Verdict.FAILED_CHECK),
        (replace(FAILED_BEFORE, has_connected=True, complaints_ms=[NOW - 50_000]), Verdict.SUSPECT),
        # Complaints about a proxy that passes.
        (replace(WELL, complaints_ms=[NOW]), Verdict.KEEP),
        (replace(WELL, complaints_ms=[NOW - 10_000, NOW]), Verdict.KEEP),
        (replace(WELL, complaints_ms=[NOW - 10_001, NOW]), Verdict.STRUCK_OUT),
        (replace(WELL, complaints_ms=[NOW - 299_999, NOW]), Verdict.STRUCK_OUT),
        (replace(WELL, complaints_ms=[NOW - 300_000, NOW]), Verdict.KEEP),
        (replace(WELL, complaints_ms=[NOW - 60_000, NOW], traffic_at_ms=NOW - 30_000), Verdict.KEEP),
        (replace(WELL, complaints_ms=[NOW, NOW + 3_000_000]), Verdict.KEEP),  # the clock was set back in between
    ],
)
def test_a_proxy_is_bad_when_two_checks_or_two_incidents_prove_it(each: Evidence, verdict: Verdict) -> None:
    pool = {"p": each, "q": WELL, "r": WELL}
    assert judge(pool, NOW, Patience()) == {"p": verdict, "q": Verdict.KEEP, "r": Verdict.KEEP}


@pytest.mark.parametrize(
    ("failing", "of", "ours"), [(0, 0, False), (1, 1, True), (1, 2, False), (2, 2, True), (2, 3, True), (6, 12, False)]
)
def test_when_more_than_half_of_the_pool_fails_at_once_the_outage_is_ours(failing: int, of: int, ours: bool) -> None:
    pool = {f"p{n}": FAILED_BEFORE if n < failing else WELL for n in range(of)}
    verdicts = judge(pool, NOW, Patience())
    expected = Verdict.OUR_OUTAGE if ours else Verdict.FAILED_CHECK
    assert list(verdicts.values()) == [expected] * failing + [Verdict.KEEP] * (of - failing)


def test_complaints_about_several_proxies_at_once_are_an_incident_of_ours() -> None:
    blamed = replace(WELL, complaints_ms=[NOW - 60_000, NOW])
    pool = {"p": blamed, "q": replace(WELL, complaints_ms=[NOW - 55_000]), "r": WELL, "s": WELL, "t": WELL}
    assert set(judge(pool, NOW, Patience()).values()) == {Verdict.KEEP}


@pytest.mark.parametrize(
    ("passed_at_ms", "present_since_ms", "weight"),
    [
        (0, 0, Complaint.STRIKE),
        (NOW - 1, NOW - 10_001, Complaint.STRIKE),
        (NOW - 1, NOW - 10_000, Complaint.DOUBTFUL),  # the worker waits for a dead proxy before it complains
        (0, NOW - 1, Complaint.DOUBTFUL),
        (NOW, 0, Complaint.LATE),
        (0, NOW, Complaint.LATE),
    ],
)
def test_a_complaint_is_a_strike_only_after_the_last_good_check_and_if_its_try_began_while_we_were_there(
    passed_at_ms: int, present_since_ms: int, weight: Complaint
) -> None:
    since = {"passed_at_ms": passed_at_ms, "present_since_ms": present_since_ms}
    assert weigh_complaint(NOW, **since, patience=Patience()) is weight


instants = st.integers(NOW - 400_000, NOW)
evidence = st.builds(
    Evidence,
    passed=st.booleans(),
    passed_at_ms=st.just(0) | instants,
    failing_since_ms=st.just(0) | instants,
    complaints_ms=st.lists(instants, max_size=4),
    traffic_at_ms=st.just(0) | instants,
    has_connected=st.booleans(),
)


@quick
@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=2), evidence, max_size=8))
def test_no_proxy_is_condemned_without_proof(pool: dict[str, Evidence]) -> None:
    verdicts = judge(pool, NOW, Patience())
    assert verdicts.keys() == pool.keys()
    condemned = {name: pool[name] for name, verdict in verdicts.items() if verdict in CONDEMNED}
    failing_now = [name for name, each in pool.items() if not each.passed]
    if 2 * len(failing_now) > len(pool):
        assert not condemned
    for each in condemned.values():
        if each.passed:
            assert len([at for at in each.complaints_ms if at > each.traffic_at_ms]) > 1
        else:
            assert each.failing_since_ms
            assert each.failing_since_ms <= NOW - Patience().confirm_ms
            assert each.traffic_at_ms <= max([each.failing_since_ms, *each.complaints_ms])


@quick
@given(st.lists(st.booleans(), max_size=12))
def test_a_bad_proxy_comes_back_only_after_three_good_checks_in_a_row(checks: list[bool]) -> None:
    health = Health(ProxyStatus.BAD)
    for seen, passed in enumerate(checks, start=1):
        was = health.status
        health = after_check(health, passed=passed)
        if was is ProxyStatus.BAD and health.status is ProxyStatus.OK:
            assert checks[seen - 3 : seen] == [True] * 3
        elif not passed:
            assert health.status is was


def test_checks_of_a_bad_proxy_grow_rarer_up_to_a_cap() -> None:
    gaps = [proxy_health.next_check_ms(bad, 30_000) for bad in (0, 1, 2, 6, 60)]
    assert gaps == [30_000, 60_000, 120_000, 1_920_000, 1_920_000]


def test_patience_is_shorter_where_time_runs_faster() -> None:
    assert Patience().scaled(10).strike_window_ms == Patience().strike_window_ms / 10
    assert Patience().scaled(1) == Patience()


@pytest.mark.parametrize(
    "line",
    [
        "a.example.com:1080:user:fake",
        "a.example.com,1080,user,fake",
        ' "a.example.com", "1080", "user", "fake" ',
        "socks5h://user:fake@a.example.com:1080",
    ],
)
def test_a_line_of_a_providers_list_is_the_proxy_that_its_url_is(line: str) -> None:
    assert proxy_url.parse_line(line) == proxy_url.parse("socks5h://user:fake@a.example.com:1080")


def test_a_password_of_a_list_may_have_any_sign_and_stays_a_password() -> None:
    assert proxy_url.parse_line("a.example.com:1080:user:p@evil.example.com:9/#").host == "a.example.com"
    assert proxy_url.parse_line("a.example.com:1080:user:p:q,r").password == "p:q,r"
    assert proxy_url.parse_line("a.example.com,1080,user,p:q,r").password == "p:q,r"
    assert proxy_url.parse_line("a.example.com:1080") == proxy_url.ProxyUrl("a.example.com", 1080)


@pytest.mark.parametrize("line", ["", "a.example.com", "a.example.com:1080:user", "host:port:user:fake", "a b:1:u:p"])
def test_a_line_that_is_no_proxy_is_refused_without_its_password(line: str) -> None:
    with pytest.raises(BadProxyUrl) as refused:
        proxy_url.parse_line(line)
    assert "fake" not in refused.value.text


def test_a_proxy_whose_password_changed_keeps_the_id_that_the_pool_knows() -> None:
    assert proxy_url.ProxyUrl("a.example.com", 1080, known_as="p_0123456789").id == "p_0123456789"
