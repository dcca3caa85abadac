"""The setting MAX_ATTEMPTS alone decides how often a message is tried, and the backoff grows to its end."""

from wa_orchestrator.domain.messages.failures import Failure
from wa_orchestrator.orchestrator.messages.retry_policy import verdict
from wa_orchestrator.store.record_codec import decode
from wa_orchestrator.store.records import Message

RECORD = {"id": "m_1", "phone": "972500000001", "session": "w1", "to": "97251000001", "status": "sending"}


def test_a_message_with_ten_attempts_waits_longer_each_time_and_fails_at_the_tenth() -> None:
    decided = [
        verdict(decode(Message, RECORD | {"attempts": str(tried)}), Failure.NO_ACK, max_attempts=10, jitter=0.5)
        for tried in range(1, 11)
    ]
    seconds = [5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert [each.backoff_ms for each in decided] == [*(1_000 * pause for pause in seconds), None]


def test_attempts_during_which_the_worker_died_do_not_lengthen_the_backoff() -> None:
    message = decode(Message, RECORD | {"attempts": "9", "crashes": "5", "uncounted": "3"})
    assert verdict(message, Failure.NO_ACK, max_attempts=3, jitter=0.5).backoff_ms == 5_000
