"""Names of browsers in the list of logins."""

import pytest

from wa_orchestrator.dashboard import browser_name

_GECKO = "(KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (f"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 {_GECKO} Chrome/140.0.0.0 Safari/537.36", "Chrome, Linux"),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0", "Firefox, Windows"),
        (f"Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 {_GECKO} Chrome/140.0 Safari/537.36 Edg/140.0", "Edge, Windows"),
        (f"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) {_GECKO} Version/18.6 Mobile Safari/604.1", "Safari, iPhone"),
        (f"Mozilla/5.0 (Linux; Android 10; K) {_GECKO} Chrome/140.0 Mobile Safari/537.36", "Chrome, Android"),
        ("<script>alert(1)</script>", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_a_login_is_recognized_by_its_browser(user_agent: str, name: str) -> None:
    assert browser_name.of(user_agent) == name
