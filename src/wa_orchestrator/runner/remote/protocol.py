"""Protocol of the runner's socket: one JSON line with the request, one with the response, then it is closed."""

import json
from collections.abc import Mapping
from typing import Any

from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.errors import OrchestratorError, Refused, Unavailable
from wa_orchestrator.runner.contract import AlreadyRunning, StartFailed, WorkerSpec

#: A question with all secrets of a worker has about a thousand bytes.
MAX_QUESTION_BYTES = 256 * 1024
#: An answer about a thousand workers has about 200,000.
MAX_ANSWER_BYTES = 16 * 1024 * 1024
UNREACHABLE = "RUNNER_UNREACHABLE"


def line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def start_question(spec: WorkerSpec) -> dict[str, Any]:
    """Return what a worker is started with. Without its directory: the server knows where credentials are."""
    told = {"environment": dict(spec.environment), "secrets": dict(spec.secrets)}
    return {"verb": "start", "session": spec.session_id, "epoch": spec.epoch, **told}


def found_answer(found: FoundWorker) -> list[Any]:
    """Return a worker as JSON. `lost` is present only if it is: older callers know four fields."""
    known = [found.handle, found.session_id, found.epoch, found.started_at_ms]
    return [*known, True] if found.is_lost else known


def error_answer(error: Exception, session_id: str) -> dict[str, Any]:
    """Return an error as the other side can raise it again; of one that nobody expects only that it happened."""
    match error:
        case AlreadyRunning():
            return {"error": "already_running", "session": session_id}
        case StartFailed():
            return {"error": "start_failed", "text": error.text}
        case OrchestratorError():
            return {"error": "unavailable", "code": error.code, "text": error.text}
        case _:
            return {"error": "unavailable", "code": UNREACHABLE, "text": "The runner failed; see its log."}


def raise_error(answer: Mapping[str, Any]) -> None:
    """Raise the error of an answer, if it is one."""
    match answer.get("error"):
        case None:
            return
        case "already_running":
            raise AlreadyRunning(str(answer["session"]))
        case "start_failed":
            raise StartFailed(str(answer["text"]))
        case _:
            raise Unavailable(str(answer["code"]), str(answer["text"]))


def refused(text: str) -> Refused:
    """A request that no server of this product sends."""
    return Refused("BAD_QUESTION", text)
