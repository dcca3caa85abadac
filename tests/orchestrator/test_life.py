"""The life of sessions with real workers: linked by code, logged out, deleted and brought back, unlinked, replaced."""

from pathlib import Path

from tests.orchestrator.stage import Stage, staged

PHONE, OTHER = "972501231231", "972505556666"


def status(stage: Stage, session_id: str) -> tuple[str, str | None]:
    shown = stage.api.get(f"/api/sessions/{session_id}/status").json()
    return shown["status"], shown["reason"]


def test_a_session_is_linked_by_code_logged_out_deleted_brought_back_unlinked_and_replaced(tmp_path: Path) -> None:
    with staged(tmp_path, proxies=2, provisioning_interval_ms=200) as stage:
        api, world = stage.api, stage.world

        # Linked by a code that was asked for at provisioning, and by one that was asked for later.
        api.post("/api/sessions/provision", json={"sessionId": "one", "phone": PHONE, "pairing": "code"})
        stage.until(lambda: status(stage, "one") == ("qr_ready", "ENTER_THE_CODE"), "a code")
        code = api.get("/api/sessions/one/qr").json()["code"]
        world.post(f"/phones/{PHONE}/enter-code", json={"code": code})
        api.post("/api/sessions/provision", json={"sessionId": "two"})
        stage.until(lambda: status(stage, "two")[0] == "qr_ready", "a QR")
        code = api.post("/api/sessions/two/pairing-code", json={"phone": OTHER}).json()["code"]
        world.post(f"/phones/{OTHER}/enter-code", json={"code": code})
        stage.until(lambda: stage.connected("one", "two"), "both linked")

        # Logged out: the device is gone at WhatsApp, the credentials lie in the trash, a new code is shown.
        assert api.post("/api/sessions/one/logout").json()["reason"] == "LOGGED_OUT"
        stage.until(lambda: status(stage, "one")[0] == "qr_ready", "a new code")
        assert PHONE not in {each["phone"] for each in stage.connections()}

        # Deleted and brought back: connected without a scan, through the same proxy.
        own = stage.sessions()["two"]["proxyId"]
        assert api.delete("/api/sessions/two").json()["deleted"]
        assert "two" not in stage.workers()
        trash = next(each for each in api.get("/api/v1/trash").json()["trash"] if each["sessionId"] == "two")
        assert api.post(f"/api/v1/trash/{trash['id']}/restore").json()["restored"]
        stage.until(lambda: stage.connected("two"), "back without a scan")
        assert stage.sessions()["two"]["proxyId"] == own

        # Replaced elsewhere: failed, and nobody fights for the connection.
        stage.fault({"phone": OTHER}, "replace")
        stage.until(lambda: status(stage, "two") == ("failed", "REPLACED_ELSEWHERE"), "replaced")
        stage.until(lambda: "two" not in stage.workers(), "its worker to end")
        api.post("/api/sessions/two/start")
        stage.until(lambda: stage.connected("two"), "started by a person")

        # Unlinked on the phone: a new code by itself.
        world.post(f"/phones/{OTHER}/unlink", json={})
        stage.until(lambda: status(stage, "two")[0] == "qr_ready", "a code after unlinking")
