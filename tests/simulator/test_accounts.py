"""Phones, numbers and LIDs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.simulator.errors import ProtocolError, SimulatorError
from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.whatsapp.accounts import Accounts, lid_of, number_of

numbers = st.from_regex(r"[1-8][0-9]{4,14}", fullmatch=True)


@given(numbers)
def test_a_lid_leads_back_to_its_number_and_hides_it(number: str) -> None:
    lid = lid_of(number)
    assert number_of(lid) == number
    assert 13 <= len(lid) <= 15  # as long as a phone number, so that only its server tells it apart


@given(numbers, numbers)
def test_two_numbers_never_share_a_lid(one: str, other: str) -> None:
    assert (lid_of(one) == lid_of(other)) == (one == other)


def test_a_phone_has_the_same_keys_after_a_restart() -> None:
    one, again, elsewhere = (Accounts(secret).phone("15550001111") for secret in (b"a", b"a", b"b"))
    assert one.identity == again.identity
    assert one.identity != elsewhere.identity
    bundle = one.take_prekey_bundle()
    assert bundle.has_valid_signature
    assert again.key_of_prekey(bundle.prekey_id or 0).public == bundle.prekey


def test_a_number_that_is_not_on_whatsapp_is_not_found() -> None:
    accounts = Accounts(b"a")
    accounts.unregister("15550001111")
    accounts.unregister_prefixes(("999",))
    assert accounts.find(jid.of_phone("15550001111")) is None
    assert accounts.find(jid.Jid(lid_of("9991234567"), jid.LID)) is None
    assert accounts.find(jid.of_phone("15550002222")) is not None
    accounts.register("15550001111")
    assert accounts.find(jid.of_phone("15550001111")) is not None


def test_an_invalid_number_is_refused() -> None:
    for wrong in ("", "0123456", "12a45", "1" * 16, "１２３４５"):
        with pytest.raises(SimulatorError):
            Accounts(b"a").phone(wrong)
    assert Accounts(b"a").find(jid.Jid("status", "broadcast")) is None
    with pytest.raises(ProtocolError):
        number_of("12")
