"""Login, login throttle, CSRF protection and security headers."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from tests.dashboard.serving import API_KEY, PASSWORD, VIEWER_PASSWORD, settings
from wa_orchestrator.context import Context, make_context
from wa_orchestrator.dashboard import login, login_throttle
from wa_orchestrator.dashboard.app import PAGES, Dashboard, install
from wa_orchestrator.dashboard.html.renderer import HERE as ROOM
from wa_orchestrator.dashboard.login import create_login_link
from wa_orchestrator.orchestrator.api.access.keys import KeyRoutes
from wa_orchestrator.orchestrator.api.admin import AdminRoutes
from wa_orchestrator.store import keys
from wa_orchestrator.texts.catalogue import texts
from wa_orchestrator.web.app import make_app

HERE = "http://127.0.0.1:3001"
SIMPLE = (
    "/", "/scan", "/messages", "/inbox", "/campaigns", "/proxies", "/anti-ban", "/live-log", "/radar", "/backups",
    "/contacts", "/jobs", "/nodes", "/people", "/audit", "/settings", "/import",
)  # fmt: skip


@pytest.fixture
def context(redis: Redis) -> Context:
    """The context of the app under test."""
    return make_context(settings(3001), redis)


@pytest.fixture
async def browser(context: Context) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that has not logged in; it says where its requests come from, as browsers do."""
    app = make_app(context, [AdminRoutes(context), KeyRoutes(context)])
    dashboard: Dashboard = install(app, context)
    assert dashboard.hub.cursor == "0-0"
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url=HERE, headers={"Origin": HERE}
    ) as client:
        yield client


async def log_in(browser: httpx.AsyncClient, password: str = PASSWORD) -> str:
    """Log in and return the CSRF token."""
    answer = await browser.post("/login", data={"password": password, "name": "Dana"})
    assert answer.status_code == 303, answer.text
    page = await browser.get("/")
    return page.text.partition('data-csrf="')[2].partition('"')[0]


@pytest.mark.parametrize("path", SIMPLE)
async def test_nobody_sees_a_page_without_logging_in(browser: httpx.AsyncClient, path: str) -> None:
    answer = await browser.get(path)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login"


def test_every_page_of_the_table_is_tried_here() -> None:
    assert set(SIMPLE) == set(PAGES) - {
        "/sessions/{id}",
        "/sessions/{id}/groups",
        "/link/{id}/passkey",
        "/campaigns/{id}",
    }


@pytest.mark.parametrize(
    ("old", "page"),
    [("/index.html", "/"), ("/scan.html?session=w1", "/scan?session=w1"), ("/live-log.html", "/live-log")],
)
async def test_the_old_address_of_a_page_leads_to_it(browser: httpx.AsyncClient, old: str, page: str) -> None:
    answer = await browser.get(old)
    assert (answer.status_code, answer.headers["location"]) == (308, page)


async def test_a_link_in_a_chat_gets_a_second_chance_to_send_its_strict_cookie(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    assert "refresh" in answer.text
    assert "nav" not in answer.text


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(browser: httpx.AsyncClient) -> None:
    answer = await browser.post("/login", data={"password": PASSWORD})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize(
    ("public_url", "scheme"),
    [("https://wa.example.com", "https"), ("https://wa.example.com", "http"), (None, "https")],
    ids=["said and seen", "said", "seen by a trusted proxy"],
)
async def test_with_tls_the_cookie_is_secure_and_bound_to_the_host(
    redis: Redis, public_url: str | None, scheme: str
) -> None:
    context = make_context(settings(3001, public_url=public_url), redis)
    app = make_app(context, [])
    install(app, context)
    origin = {"Origin": "https://wa.example.com"}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url=f"{scheme}://wa.example.com") as client:
        answer = await client.post("/login", data={"password": PASSWORD}, headers=origin)
        cookie = answer.headers["set-cookie"].partition(";")[0]
        page = await client.get("/", headers={"Cookie": cookie})
        csrf = page.text.partition('data-csrf="')[2].partition('"')[0]
        gone = await client.post("/logout", data={"csrf": csrf}, headers={**origin, "Cookie": cookie})
    for told in (answer, gone):  # a browser ignores either without `Secure`
        assert told.headers["set-cookie"].startswith("__Host-wao=")
        assert "Secure" in told.headers["set-cookie"]


async def test_every_login_gives_a_new_token(browser: httpx.AsyncClient) -> None:
    first = await browser.post("/login", data={"password": PASSWORD})
    second = await browser.post("/login", data={"password": PASSWORD})
    assert first.cookies["wao"] != second.cookies["wao"]


async def test_redis_knows_only_the_hash_of_a_token(browser: httpx.AsyncClient, redis: Redis) -> None:
    answer = await browser.post("/login", data={"password": PASSWORD})
    everything = " ".join([key async for key in redis.scan_iter("*")])
    assert "dashboard:person:" in everything
    assert answer.cookies["wao"] not in everything


async def test_wrong_passwords_are_told_how_long_the_next_one_takes(browser: httpx.AsyncClient) -> None:
    said = [await browser.post("/login", data={"password": "wrong"}) for _ in range(login_throttle.FREE_TRIES)]
    assert [each.status_code for each in said] == [401] * 3
    assert "takes 1 second." in said[-1].text
    assert "takes" not in said[0].text
    assert (await browser.post("/login", data={"password": PASSWORD})).status_code == 303


class Sleeper:
    """Sleeps by writing down how long."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


async def test_wrong_passwords_slow_their_own_address_down_and_shut_nobody_out(context: Context) -> None:
    auth, sleeper = login.Authenticator(context), Sleeper()
    auth._throttle = login_throttle.LoginThrottle(context.scripts, sleeper)
    for n in range(9):
        assert isinstance(await auth.log_in("wrong", name="Dana", address=f"2001:db8::{n}"), login.WrongPassword)
    assert sleeper.slept == [0, 0, 0, 1, 2, 4, 8, 10, 10]
    assert isinstance(await auth.log_in(PASSWORD, name="Dana", address="192.0.2.1"), str)
    assert sleeper.slept.pop() == 0
    assert isinstance(await auth.log_in(PASSWORD, name="Dana", address="2001:db8::1"), str)
    assert sleeper.slept.pop() == 10
    assert await login_throttle.LoginThrottle(context.scripts).count_wrong("2001:db8::1") == 0


async def test_a_viewer_s_login_does_not_forgive_wrong_passwords(context: Context) -> None:
    auth, sleeper = login.Authenticator(context), Sleeper()
    auth._throttle = login_throttle.LoginThrottle(context.scripts, sleeper)
    for _ in range(4):
        await auth.log_in("wrong", name="Eve", address="a")
    assert isinstance(await auth.log_in(VIEWER_PASSWORD, name="Eve", address="a"), str)
    assert sleeper.slept[-1] == 2


async def test_many_tries_of_one_address_at_once_do_not_wait_in_line(context: Context) -> None:
    auth, gate = login.Authenticator(context), asyncio.Event()

    async def blocked(_seconds: float) -> None:
        await gate.wait()

    auth._throttle = login_throttle.LoginThrottle(context.scripts, blocked)
    waiting = [
        asyncio.create_task(auth.log_in("wrong", name="", address="a")) for _ in range(login_throttle.MOST_WAITING)
    ]
    await asyncio.sleep(0)
    assert isinstance(await auth.log_in(PASSWORD, name="", address="a"), login.TooManyAttempts)
    gate.set()
    assert {type(each) for each in await asyncio.gather(*waiting)} == {login.WrongPassword}
    assert isinstance(await auth.log_in(PASSWORD, name="", address="a"), str)


async def test_a_new_password_ends_the_sessions_of_the_old_one(context: Context) -> None:
    entered = await login.Authenticator(context).log_in(PASSWORD, name="Dana", address="a")
    viewer = await login.Authenticator(context).log_in(VIEWER_PASSWORD, name="Eve", address="a")
    assert isinstance(entered, str)
    assert isinstance(viewer, str)
    changed = context.settings.model_copy(update={"dashboard_password": SecretStr("another-Password-5-words")})
    auth = login.Authenticator(make_context(changed, context.redis))
    assert await auth.recognize(entered) is None
    assert await auth.recognize(viewer) is not None
    assert await login.Authenticator(context).recognize(entered) is None  # it was ended, and stays so


async def test_a_session_that_is_too_old_ends_although_it_is_used(browser: httpx.AsyncClient, redis: Redis) -> None:
    await log_in(browser)
    (person,) = await redis.keys("dashboard:person:*")
    since = int(await redis.hget(person, "since") or 0)
    await redis.hset(person, "since", since - login.ABSOLUTE_S * 1000)
    assert (await browser.get("/")).status_code == 303
    assert not await redis.exists(person)


async def test_an_idle_session_ends(browser: httpx.AsyncClient, redis: Redis) -> None:
    await log_in(browser)
    (person,) = await redis.keys("dashboard:person:*")
    assert 0 < await redis.ttl(person) <= login.IDLE_S


async def test_a_page_that_is_only_left_open_does_not_keep_a_session_alive(context: Context, redis: Redis) -> None:
    auth = login.Authenticator(context)
    entered = await auth.log_in(PASSWORD, name="", address="a")
    assert isinstance(entered, str)
    (person,) = await redis.keys("dashboard:person:*")
    await redis.expire(person, 60)
    assert await auth.look(entered)
    assert await redis.ttl(person) <= 60
    assert await auth.recognize(entered) is not None
    assert await redis.ttl(person) > 60


async def test_after_logging_out_the_old_cookie_opens_nothing(browser: httpx.AsyncClient) -> None:
    csrf = await log_in(browser)
    token = browser.cookies["wao"]
    assert (await browser.post("/logout", data={"csrf": csrf})).status_code == 303
    browser.cookies.set("wao", token)
    assert (await browser.get("/")).status_code == 303


async def test_logins_logouts_and_wrong_passwords_are_in_the_audit_log(
    browser: httpx.AsyncClient, redis: Redis
) -> None:
    await browser.post("/login", data={"password": "canary-wrong-password", "name": "Dana"})
    csrf = await log_in(browser)
    await browser.post("/logout", data={"csrf": csrf})
    written = [fields for _, fields in await redis.xrange("audit")]
    assert [(each["action"], each["by"]) for each in written] == [
        ("dashboard.login_failed", "dashboard:nobody"),
        ("dashboard.login", "dashboard:Dana"),
        ("dashboard.logout", "dashboard:Dana"),
    ]
    assert "canary-wrong-password" not in str(written)


async def test_a_login_link_works_once(browser: httpx.AsyncClient, context: Context) -> None:
    link = await create_login_link(context)
    token = link.partition("#")[2]
    assert link.startswith(f"{HERE}/enter#")
    assert (await browser.get("/enter")).status_code == 200
    assert (await browser.post("/enter", data={"token": token})).headers["location"] == "/"
    assert (await browser.get("/")).status_code == 200
    assert (await browser.post("/enter", data={"token": token})).status_code == 401


async def test_opening_a_login_link_does_not_use_it_up(browser: httpx.AsyncClient, context: Context) -> None:
    token = (await create_login_link(context)).partition("#")[2]
    await browser.get(f"/enter?token={token}")
    assert await context.redis.exists(keys.login_link(login.digest(token)))


@pytest.mark.parametrize(
    ("headers", "csrf"),
    [
        ({"Origin": "https://evil.example.com"}, "right"),
        ({"Origin": "null"}, "right"),
        ({"Origin": HERE}, "wrong"),
        ({"Origin": HERE}, ""),
    ],
    ids=["another site", "a sandboxed frame", "a wrong token", "no token"],
)
async def test_a_request_without_origin_or_csrf_token_changes_nothing(
    browser: httpx.AsyncClient, redis: Redis, headers: dict[str, str], csrf: str
) -> None:
    right = await log_in(browser)
    sent = {"csrf": right if csrf == "right" else csrf, "name": "x", "scopes": "send"}
    answer = await browser.post("/do/key-make", data=sent, headers=headers)
    assert answer.status_code == 403
    assert not await redis.exists(keys.API_KEYS)


async def test_an_action_is_recorded_under_the_persons_name(browser: httpx.AsyncClient, redis: Redis) -> None:
    csrf = await log_in(browser)
    answer = await browser.post("/do/key-make", data={"name": "CRM", "scopes": "send"}, headers={"X-CSRF-Token": csrf})
    assert answer.json()["state"] == "ok"
    assert answer.json()["secret"].startswith("wao_")
    assert (await redis.xrange(keys.AUDIT))[0][1]["by"] == "dashboard:Dana"


@pytest.mark.parametrize("path", ["/do/key-make", "/logout", "/choose"])
async def test_nothing_changes_by_a_get(browser: httpx.AsyncClient, path: str) -> None:
    await log_in(browser)
    assert (await browser.get(path)).status_code == 405


async def test_a_viewer_can_change_nothing(browser: httpx.AsyncClient, redis: Redis) -> None:
    csrf = await log_in(browser, VIEWER_PASSWORD)
    answer = await browser.post("/do/key-make", data={"name": "x", "scopes": "send"}, headers={"X-CSRF-Token": csrf})
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "VIEWERS_ONLY_LOOK"
    assert (await browser.get("/settings")).status_code == 403
    assert not await redis.exists(keys.API_KEYS)


async def test_a_cookie_alone_never_opens_the_api(browser: httpx.AsyncClient) -> None:
    await log_in(browser)
    assert (await browser.get("/api/v1/dashboard/stats")).status_code == 401
    with_key = await browser.get("/api/v1/dashboard/stats", headers={"X-API-Key": API_KEY})
    assert with_key.status_code == 200


async def test_pages_are_kept_by_nobody_and_run_only_our_own_scripts(browser: httpx.AsyncClient) -> None:
    await log_in(browser)
    for path in SIMPLE:
        headers = (await browser.get(path)).headers
        assert headers["cache-control"] == "no-store", path
        assert "script-src 'self';" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    stream = await browser.get("/events/ui?page=nowhere")
    assert stream.status_code == 404


async def test_no_page_holds_an_inline_script(browser: httpx.AsyncClient) -> None:
    import re

    await log_in(browser)
    for path in (*SIMPLE, "/login", "/enter"):
        html = (await browser.get(path)).text
        assert re.findall(r"<script(?![^>]*\bsrc=)", html) == [], path
        assert re.findall(r"\son\w+\s*=", html) == [], path


async def test_a_choice_of_language_leads_nowhere_else(browser: httpx.AsyncClient) -> None:
    answer = await browser.post("/choose", data={"lang": "he", "back": "//evil.example.com"})
    assert answer.headers["location"] == "/"
    assert 'dir="rtl"' in (await browser.get("/login")).text


async def test_a_language_that_is_added_as_a_file_can_be_chosen(browser: httpx.AsyncClient, klingon: str) -> None:
    assert "tlhIngan Hol" in (await browser.get("/login")).text
    await browser.post("/choose", data={"lang": klingon})
    page = (await browser.get("/login")).text
    assert f'<html lang="{klingon}" dir="ltr"' in page
    assert "yI&#39;el" in page or "yI'el" in page
    assert "עברית" in page
    assert "English" in page


async def test_the_token_of_a_page_never_looks_the_same_and_always_opens(browser: httpx.AsyncClient) -> None:
    await log_in(browser)
    tokens = [(await browser.get("/")).text.partition('data-csrf="')[2].partition('"')[0] for _ in range(3)]
    assert len(set(tokens)) == 3
    for token in tokens:
        answer = await browser.post("/do/nothing", headers={"X-CSRF-Token": token})
        assert answer.json()["error"]["code"] == "NO_SUCH_ACTION"
    other = "".join("0" if each != "0" else "1" for each in tokens[0])
    for wrong in ("", "zz", other, tokens[0][:-2]):
        answer = await browser.post("/do/nothing", headers={"X-CSRF-Token": wrong})
        assert answer.json()["error"]["code"] == "CSRF_TOKEN_WRONG", wrong


async def test_pages_and_files_are_compressed_for_those_who_can_read_it(browser: httpx.AsyncClient) -> None:
    await log_in(browser)
    css = (await browser.get("/login")).text.partition('stylesheet" href="')[2].partition('"')[0]
    for path in ("/", "/login", css):
        compressed = await browser.get(path)
        plain = await browser.get(path, headers={"Accept-Encoding": "identity"})
        assert compressed.headers["content-encoding"] == "gzip", path
        assert "content-encoding" not in plain.headers, path
        assert compressed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
        assert int(compressed.headers["content-length"]) < int(plain.headers["content-length"]) / 3, path
    assert (await browser.get(css)).content == (ROOM / "static" / "app.css").read_bytes()


async def test_a_refusal_is_said_in_the_language_of_the_page(browser: httpx.AsyncClient) -> None:
    csrf = await log_in(browser, VIEWER_PASSWORD)
    browser.cookies.set("lang", "he")
    answer = await browser.post("/do/key-make", data={"name": "x"}, headers={"X-CSRF-Token": csrf})
    assert texts("he")["error.VIEWERS_ONLY_LOOK"] in answer.json()["toast"]
