"""Faults: phone, duration, number of uses."""

import pytest

from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.whatsapp.faults import Faults


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_fault_ends_with_its_time() -> None:
    clock = Clock()
    faults = Faults(clock)
    faults.add("silence", None, 10, None, {})
    assert faults.active("silence", "1")
    clock.now += 10
    assert faults.active("silence", "1") is None


def test_a_way_in_which_no_passkey_goes_wrong_is_refused() -> None:
    faults = Faults(Clock())
    faults.add("passkey", "1", None, None, {"no_continuation": True, "times": 1})
    with pytest.raises(SimulatorError) as refused:
        faults.add("passkey", "1", None, None, {"noContinuatoin": True})
    assert refused.value.code == "UNKNOWN_FAULT"


def test_a_fault_of_one_phone_takes_precedence_and_affects_no_other() -> None:
    faults = Faults(Clock())
    faults.add("ack_error", None, None, 500, {})
    faults.add("ack_error", "1", None, 463, {})
    codes = [fault.code for phone in ("1", "2") if (fault := faults.active("ack_error", phone))]
    assert codes == [463, 500]
    assert faults.active("ban", "1") is None


def test_a_fault_limited_to_two_uses_ends_after_two() -> None:
    faults = Faults(Clock())
    faults.add("ack_error", "1", None, 500, {"times": 2})
    uses = 0
    while fault := faults.active("ack_error", "1"):
        faults.use(fault)
        uses += 1
    assert uses == 2


def test_the_seconds_of_an_ack_delay_are_not_its_duration() -> None:
    clock = Clock()
    faults = Faults(clock)
    faults.add("ack_delay", "1", 3, None, {})
    clock.now += 100
    fault = faults.active("ack_delay", "1")
    assert fault
    assert fault.extra["seconds"] == 3


def test_an_unknown_fault_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(SimulatorError, match="silence"):
        Faults(Clock()).add("rain", None, None, None, {})
