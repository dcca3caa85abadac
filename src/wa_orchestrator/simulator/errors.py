"""What a person or a test driver did wrong towards the simulated world."""


class SimulatorError(Exception):
    """An act that the simulated world refuses. `code` is stable; the text says what to do."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class QueryRefusedError(Exception):
    """A question that the server answers with an error; the connection goes on."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class ProtocolError(Exception):
    """A client sent bytes that are not the protocol: its connection is closed, nobody else notices."""
