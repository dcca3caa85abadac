"""The life of sessions with real workers: linked by code, logged out, deleted and brought back, unlinked, replaced."""

from pathlib import Path

from tests.orchestrator.product import Product, running_product

PHONE, OTHER = "972501231231", "972505556666"


def status(product: Product, session_id: str) -> tuple[str, str | None]:
    shown = product.api.get(f"/api/sessions/{session_id}/status").json()
    return shown["status"], shown["reason"]


def test_a_session_is_linked_by_code_logged_out_deleted_brought_back_unlinked_and_replaced(tmp_path: Path) -> None:
    with running_product(tmp_path, proxies=2, provisioning_interval_ms=200) as product:
        api, world = product.api, product.world

        # Linked by a code that was asked for at provisioning, and by one that was asked for later.
        api.post("/api/sessions/provision", json={"sessionId": "one", "phone": PHONE, "pairing": "code"})
        product.until(lambda: status(product, "one") == ("qr_ready", "ENTER_THE_CODE"), "a code")
        code = api.get("/api/sessions/one/qr").json()["code"]
        world.post(f"/phones/{PHONE}/enter-code", json={"code": code})
        api.post("/api/sessions/provision", json={"sessionId": "two"})
        product.until(lambda: status(product, "two")[0] == "qr_ready", "a QR")
        code = api.post("/api/sessions/two/pairing-code", json={"phone": OTHER}).json()["code"]
        world.post(f"/phones/{OTHER}/enter-code", json={"code": code})
        product.until(lambda: product.connected("one", "two"), "both linked")

        # Logged out: the device is gone at WhatsApp, the credentials lie in the trash, a new code is shown.
        assert api.post("/api/sessions/one/logout").json()["reason"] == "LOGGED_OUT"
        product.until(lambda: status(product, "one")[0] == "qr_ready", "a new code")
        assert PHONE not in {each["phone"] for each in product.connections()}

        # Deleted and brought back: connected without a scan, through the same proxy.
        own = product.sessions()["two"]["proxyId"]
        assert api.delete("/api/sessions/two").json()["deleted"]
        assert "two" not in product.workers()
        trash = next(each for each in api.get("/api/v1/trash").json()["trash"] if each["sessionId"] == "two")
        assert api.post(f"/api/v1/trash/{trash['id']}/restore").json()["restored"]
        product.until(lambda: product.connected("two"), "back without a scan")
        assert product.sessions()["two"]["proxyId"] == own

        # Replaced elsewhere: failed, and nobody fights for the connection.
        product.fault({"phone": OTHER}, "replace")
        product.until(lambda: status(product, "two") == ("failed", "REPLACED_ELSEWHERE"), "replaced")
        product.until(lambda: "two" not in product.workers(), "its worker to end")
        api.post("/api/sessions/two/start")
        product.until(lambda: product.connected("two"), "started by a person")

        # Unlinked on the phone: a new code by itself.
        world.post(f"/phones/{OTHER}/unlink", json={})
        product.until(lambda: status(product, "two")[0] == "qr_ready", "a code after unlinking")
