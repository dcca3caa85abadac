"""Names of browsers, so that people recognize their own logins."""

from typing import Final

#: The mark of a browser, and its name. The first that matches: most of them claim to be Chrome and Safari too.
_BROWSERS: Final = {
    "Edg": "Edge",
    "OPR/": "Opera",
    "SamsungBrowser/": "Samsung Internet",
    "Firefox/": "Firefox",
    "FxiOS/": "Firefox",
    "CriOS/": "Chrome",
    "Chrome/": "Chrome",
    "Safari/": "Safari",
}
#: Android says that it is Linux, iPhones that they are like Mac OS X.
_SYSTEMS: Final = {
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "CrOS": "ChromeOS",
    "Windows": "Windows",
    "Mac OS X": "macOS",
    "Linux": "Linux",
}


def of(user_agent: str) -> str:
    """Return the browser and the system that a User-Agent header names; '' if it names none that we know."""
    found = [next((name for mark, name in known.items() if mark in user_agent), "") for known in (_BROWSERS, _SYSTEMS)]
    return ", ".join(name for name in found if name)
