"""The tree of errors, ordered by who can cure them."""


class OrchestratorError(Exception):
    """Anything that goes wrong in a way this product knows about. `code` is stable, the text is for people."""

    def __init__(self, code: str, text: str, **details: object) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.details = details


class Refused(OrchestratorError):  # noqa: N818 (names what happened, and reads so in `raise`)
    """The caller can fix it. Answered with `status` (a 4xx); the text says what to do."""

    def __init__(self, code: str, text: str, status: int = 400, **details: object) -> None:
        super().__init__(code, text, **details)
        self.status = status


class Unavailable(OrchestratorError):  # noqa: N818 (names what happened, and reads so in `raise`)
    """Waiting may fix it: retried with backoff inside, a 503 at the edge."""

    status = 503


class Broken(OrchestratorError):  # noqa: N818 (names what happened, and reads so in `raise`)
    """Only a programmer can fix it: a 500, logged with everything there is."""

    status = 500

    def __init__(self, text: str, code: str = "BROKEN", **details: object) -> None:
        super().__init__(code, text, **details)


class BadSettings(Refused):
    """Settings that cannot be started with. Each problem is one line: `VARIABLE: problem. Example: VARIABLE=…`."""

    def __init__(self, *problems: str) -> None:
        super().__init__("BAD_SETTINGS", "\n".join(problems))
        self.problems = problems
