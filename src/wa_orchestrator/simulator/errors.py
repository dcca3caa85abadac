"""Errors of the simulator."""


class SimulatorError(Exception):
    """A refused action. `code` is stable; the text says what to do."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class QueryRefusedError(Exception):
    """A query that the server answers with an error; the connection stays open."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class ProtocolError(Exception):
    """Invalid data of a client: its connection is closed; others are not affected."""
