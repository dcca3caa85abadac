"""Accounts of other programs on Baileys: which are taken, and why others are refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain.sessions import baileys_account
from wa_orchestrator.errors import Refused

KEY = {"type": "Buffer", "data": "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="}
AS_NUMBERS = {"type": "Buffer", "data": list(range(32))}


def creds(**changes: Any) -> dict[str, Any]:
    return {
        "noiseKey": {"private": KEY, "public": KEY},
        "signedIdentityKey": {"private": AS_NUMBERS, "public": KEY},
        "signedPreKey": {"keyPair": {"private": KEY, "public": KEY}, "signature": KEY, "keyId": 1},
        "registrationId": 77,
        "advSecretKey": "x",
        "me": {"id": "972501234567:12@s.whatsapp.net", "name": "Oren"},
        "account": {"details": "x"},
    } | changes


def files(**more: str) -> dict[str, str]:
    return {
        "creds.json": json.dumps(creds()),
        "pre-key-1.json": json.dumps({"private": KEY}),
        "session-972500000001.0.json": "{}",
        "sender-key-memory-1203@g.us.json": "{}",
        "sender-key-1203@g.us--97250--0.json": "{}",
        "store.json": "not ours, and no JSON",
    } | more


def test_a_directory_is_read_and_what_is_not_of_the_account_is_left_out() -> None:
    found = baileys_account.read(files())
    assert (found.phone, found.device, found.name) == ("972501234567", 12, "Oren")
    assert found.jid == "972501234567:12@s.whatsapp.net"
    assert found.keys == {"pre-key": 1, "session": 1, "sender-key-memory": 1, "sender-key": 1}
    assert "store.json" not in found.files
    assert json.loads(found.files["creds.json"]) == creds()


@pytest.mark.parametrize("layers", [1, 2])
def test_credentials_that_were_encoded_again_for_a_database_are_unwrapped(layers: int) -> None:
    text = json.dumps(creds())
    for _ in range(layers):
        text = json.dumps(text)
    assert json.loads(baileys_account.read({"creds.json": text}).files["creds.json"]) == creds()


@pytest.mark.parametrize(
    "document",
    [
        {"creds": creds(), "keys": {"pre-key": {"1": {"private": KEY}}, "session": None}},
        {"creds": creds(), "keys": {"preKeys": {"1": {"private": KEY}}}},
        {"creds": json.dumps(creds()), "pre-key-1": json.dumps({"private": KEY}), "pre-key-2": None, "other": {}},
    ],
    ids=["by type", "by the names of old versions", "a hash of strings"],
)
def test_one_exported_document_is_the_same_account(document: dict[str, Any]) -> None:
    found = baileys_account.read_document(json.dumps(document))
    assert found.keys == {"pre-key": 1}
    assert json.loads(found.files["pre-key-1.json"]) == {"private": KEY}


def test_names_of_keys_become_the_names_that_baileys_gives_their_files() -> None:
    document = {
        "creds": creds(),
        "keys": {"sender-key": {"1203@g.us::97250::0": {}}, "app-state-sync-key": {"A/b=": {}}},
    }
    found = baileys_account.read_document(json.dumps(document))
    assert set(found.files) == {"creds.json", "sender-key-1203@g.us--97250--0.json", "app-state-sync-key-A__b=.json"}


@pytest.mark.parametrize(
    ("given_files", "code"),
    [
        ({}, "IMPORT_NO_CREDENTIALS"),
        ({"creds.json": '{"noiseKey":'}, "IMPORT_DAMAGED"),
        ({"creds.json": "[]"}, "IMPORT_DAMAGED"),
        ({"creds.json": json.dumps("no JSON at all")}, "IMPORT_DAMAGED"),
        ({"creds.json": json.dumps(json.dumps(json.dumps(json.dumps({}))))}, "IMPORT_DAMAGED"),
        ({"creds.json": json.dumps(creds(noiseKey=None))}, "IMPORT_DAMAGED"),
        ({"creds.json": json.dumps(creds(noiseKey={"private": {"data": "!"}}))}, "IMPORT_DAMAGED"),
        ({"creds.json": json.dumps(creds(signedIdentityKey={"private": {"data": [999]}}))}, "IMPORT_DAMAGED"),
        ({"creds.json": json.dumps(creds(signedIdentityKey={"private": {"data": 5}}))}, "IMPORT_DAMAGED"),
        ({"creds.json": json.dumps(creds(signedIdentityKey={"private": {"data": 10**18}}))}, "IMPORT_DAMAGED"),
        ({"creds.json": json.dumps(creds(signedIdentityKey={"private": {"data": 10**30}}))}, "IMPORT_DAMAGED"),
        ({"creds.json": json.dumps(creds(signedPreKey=None))}, "IMPORT_DAMAGED"),
        ({"creds.json": json.dumps(creds(registrationId="7"))}, "IMPORT_DAMAGED"),
        ({"creds.json": json.dumps(creds(me=None))}, "IMPORT_NOT_LINKED"),
        ({"creds.json": json.dumps(creds(me={"id": "972501234567@s.whatsapp.net"}))}, "IMPORT_NOT_LINKED"),
        ({"creds.json": json.dumps(creds(account=None))}, "IMPORT_NOT_LINKED"),
        (files(**{"pre-key-1.json": "cut of"}), "IMPORT_DAMAGED"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(given_files: dict[str, str], code: str) -> None:
    with pytest.raises(Refused) as refused:
        baileys_account.read(given_files)
    assert refused.value.code == code


@pytest.mark.parametrize("text", ["[]", "{}", "7"])
def test_a_document_without_credentials_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refused:
        baileys_account.read_document(text)
    assert refused.value.code == "IMPORT_NO_CREDENTIALS"


@pytest.mark.parametrize("entries", [[1], "x", 7])
def test_a_document_whose_keys_are_no_objects_is_refused(entries: object) -> None:
    with pytest.raises(Refused) as refused:
        baileys_account.read_document(json.dumps({"creds": creds(), "keys": {"session": entries}}))
    assert refused.value.code == "IMPORT_DAMAGED"


@pytest.mark.parametrize("name", ["../pre-key-1.json", "pre-key-../../x.json", "pre-key-a/b.json", "pre-key-\0.json"])
def test_no_name_leads_out_of_a_directory(name: str) -> None:
    assert set(baileys_account.read({"creds.json": json.dumps(creds()), name: "{}"}).files) == {"creds.json"}


@given(st.text())
def test_no_text_is_taken_for_an_account_or_breaks_the_reader(text: str) -> None:
    for read in (baileys_account.read_document, lambda given_text: baileys_account.read({"creds.json": given_text})):
        with pytest.raises(Refused):
            read(text)
