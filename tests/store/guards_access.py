"""The cases of the guards of logins and webhooks. Importing this adds them."""

from tests.store.guards import case
from tests.store.scene import Scene
from wa_orchestrator.store import keys
from wa_orchestrator.store.access import logins


@case("code_pause")
async def _(scene: Scene) -> None:
    for _ in range(logins.FREE_CODES):
        assert await logins.admit_code(scene.scripts, "a_1") == logins.CodeAdmitted()
    assert isinstance(await logins.admit_code(scene.scripts, "a_1"), logins.CodeMustWait)
    assert await logins.admit_code(scene.scripts, "a_2") == logins.CodeAdmitted()
    await logins.clear_codes(scene.scripts, "a_1")
    assert await logins.admit_code(scene.scripts, "a_1") == logins.CodeAdmitted()


@case("webhook_unchanged")
async def _(scene: Scene) -> None:
    await scene.scripts.redis.hset(keys.WEBHOOKS, "wh_1", "another")
    reply = await scene.scripts.run("replace_webhook", [keys.WEBHOOKS], ["wh_1", "as it was read", "new"])
    assert reply == ["changed"]
    assert await scene.scripts.redis.hget(keys.WEBHOOKS, "wh_1") == "another"
