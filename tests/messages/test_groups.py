"""Groups by the API: who may, how often, and nobody is added."""

from typing import Any

from tests.messages.conftest import MessageApi
from tests.messages.test_acts import act, answered, code_of
from tests.messages.test_incoming import FRIEND
from wa_orchestrator.store import keys

GROUP = "120363025246125486@g.us"
PATH = "/api/sessions/w1/groups"
MADE = {
    "ok": True,
    "group": {"id": GROUP, "subject": "Course 7", "size": 1, "admin": True, "createdAt": 1_700_000_000_000},
}


async def asked(api: MessageApi, method: str, path: str, answer: Any = None, **body: Any) -> tuple[Any, Any]:
    return await answered(api, api.client.request(method, path, json=body), answer)


async def test_a_group_is_made_empty_and_no_route_takes_people_to_add(api: MessageApi) -> None:
    command, made = await act(api, PATH, MADE, subject=" Course 7 ")
    assert (command["kind"], command["text"]) == ("create_group", "Course 7")
    assert (made.status_code, made.json()["id"], made.json()["createdAt"]) == (201, GROUP, "2023-11-14T22:13:20.000Z")
    command, refused = await act(api, PATH, MADE, subject="Course 7", members=[FRIEND])
    assert (command, refused.status_code) == (None, 422)
    added = await api.client.post(f"{PATH}/{GROUP}/members", json={"member": FRIEND})
    assert added.status_code in (404, 405)


async def test_members_are_shown_as_whatsapp_has_them_and_become_no_contacts(api: MessageApi) -> None:
    members = [{"phone": FRIEND, "lid": "123456789012345"}, {"lid": "999999999999999", "admin": True}]
    answer = {"ok": True, "group": {**MADE["group"], "members": members}}  # type: ignore[dict-item]
    before = await api.context.redis.dbsize()
    _, found = await asked(api, "GET", f"{PATH}/{GROUP}", answer)
    assert found.json()["members"] == [
        {"phone": FRIEND, "lid": "123456789012345", "admin": False},
        {"phone": None, "lid": "999999999999999", "admin": True},
    ]
    listed = [key async for key in api.context.redis.scan_iter(match="*")]
    assert not [key for key in listed if FRIEND in key]
    assert len(listed) <= before + 1  # the count of acts


async def test_a_change_a_removal_and_a_request_name_their_group_and_person(api: MessageApi) -> None:
    command, _ = await asked(api, "PATCH", f"{PATH}/{GROUP}", joinApproval=True)
    assert (command["kind"], command["to"], command["text"]) == ("approve_joins", GROUP, "on")
    command, gone = await asked(api, "DELETE", f"{PATH}/{GROUP}/members/lid:123456789012345")
    assert (command["kind"], command["lid"], gone.json()) == ("remove_member", "123456789012345", {"done": True})
    reply = {"member": f"+{FRIEND}", "answer": "reject"}
    command, _ = await answered(api, api.client.post(f"{PATH}/{GROUP}/join-requests", json=reply))
    assert (command["kind"], command["phone"], command["text"]) == ("answer_join_request", FRIEND, "reject")
    command, refused = await asked(api, "DELETE", f"{PATH}/{GROUP}/members/{GROUP}")
    assert (command, code_of(refused)) == (None, (400, "BAD_RECIPIENT"))
    command, refused = await asked(api, "PATCH", f"{PATH}/{GROUP}")
    assert (command, refused.status_code) == (None, 422)


async def test_groups_are_changed_a_few_times_a_day_only(api: MessageApi) -> None:
    for _ in range(10):
        assert (await act(api, f"{PATH}/{GROUP}/link", {"ok": True, "link": "https://chat.example"}))[
            1
        ].status_code == 200
    command, refused = await act(api, f"{PATH}/{GROUP}/leave")
    assert (command, code_of(refused)) == (None, (429, "ACTS_LIMITED"))
    _, link = await asked(api, "GET", f"{PATH}/{GROUP}/link", {"ok": True, "link": "https://chat.example"})
    assert link.json() == {"link": "https://chat.example"}


async def test_what_whatsapp_refuses_has_a_code_of_its_own_and_nonsense_of_a_worker_is_not_passed_on(
    api: MessageApi,
) -> None:
    for code, status in (("UNKNOWN_GROUP", 404), ("GROUP_FORBIDDEN", 403)):
        _, refused = await asked(api, "GET", f"{PATH}/{GROUP}", {"ok": False, "code": code})
        assert code_of(refused) == (status, code)
    for nonsense in ({}, {"group": {"id": GROUP, "subject": "x" * 2000, "size": -1}}, {"group": {"createdAt": 10**40}}):
        _, refused = await asked(api, "GET", f"{PATH}/{GROUP}", {"ok": True, **nonsense})
        assert code_of(refused) == (409, "ACT_REFUSED")
    await api.context.redis.hset(keys.session("w1"), "status", "disconnected")
    assert code_of((await asked(api, "GET", PATH))[1]) == (503, "SESSION_NOT_CONNECTED")
