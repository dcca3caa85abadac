"""The OpenAPI documents: typed, described, stable, and accepted by a linter and a client generator."""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr, TypeAdapter

from scripts import api_reference
from tests.orchestrator.fakes import FakeRunner
from tests.web.clients import generate_client
from wa_orchestrator.context import Context, make_context
from wa_orchestrator.domain.stream_events import INTERNAL, EventType, encode
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.orchestrator import service
from wa_orchestrator.orchestrator.api.events import reference, views
from wa_orchestrator.server import bootstrap
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.events.event_stream import Details
from wa_orchestrator.store.records import Entry

ROOT = Path(__file__).parents[2]
NODE = ROOT / ".venv" / "node" / "bin" / "node"
REDOCLY = ROOT / "frontend" / "node_modules" / "@redocly" / "cli" / "bin" / "cli.js"
#: Every operation with its id. A line that changes breaks clients that were generated before.
OPERATIONS = Path(__file__).with_name("operations.txt")
SERVICES = ("gateway", "orchestrator", "up")
#: Operations that answer text.
TEXT = {
    "downloadBackup", "exportAudit", "exportAuditFile", "exportContact", "exportMessages", "exportOptOuts",
    "exportSessions", "getMedia", "getMetrics", "getThumbnail", "streamEvents",
}  # fmt: skip


def _context(home: Path) -> Context:
    return make_context(Settings(api_key=SecretStr("wao_5vR8kq2LxZt7mB1nWd9s"), data_dir=home), LineClient())


def _app(name: str, home: Path) -> Any:
    context = _context(home)
    match name:
        case "gateway":
            return Gateway(context).app()
        case "orchestrator":
            return bootstrap.control_apps(service.assemble(context, FakeRunner())).main
        case _:
            return bootstrap.control_apps(service.assemble(context, FakeRunner()), [Gateway(context).router()]).main


@pytest.fixture(scope="module", params=SERVICES)
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `openapi.json` of a service, as it is served."""
    made = tmp_path_factory.mktemp(request.param)

    async def fetch() -> str:
        transport = httpx.ASGITransport(app=_app(request.param, made))
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return (await client.get("/openapi.json")).text

    (made / "openapi.json").write_text(asyncio.run(fetch()), "utf-8")
    return made


@pytest.fixture
def document(home: Path) -> dict[str, Any]:
    """The document of a service."""
    served: dict[str, Any] = json.loads((home / "openapi.json").read_text("utf-8"))
    return served


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def _schema(response: dict[str, Any]) -> str:
    return str(response.get("content", {}).get("application/json", {}).get("schema", {}).get("$ref", ""))


def test_every_operation_answers_a_model_and_every_error_the_same_one(document: dict[str, Any]) -> None:
    for label, operation in _operations(document):
        good = [each for status, each in operation["responses"].items() if status.startswith("2")]
        bad = [each for status, each in operation["responses"].items() if not status.startswith("2")]
        assert all(map(_schema, good)) or operation["operationId"] in TEXT, label
        assert bad, label
        assert {_schema(each) for each in bad} == {"#/components/schemas/ErrorResponse"}, label


def test_everything_is_described(document: dict[str, Any]) -> None:
    assert document["servers"][0]["url"] == "/"
    assert all(tag["description"] for tag in document["tags"])
    tags = {tag["name"] for tag in document["tags"]}
    for label, operation in _operations(document):
        assert operation["summary"], label
        assert set(operation["tags"]) <= tags, label
        needs_key = operation["tags"] not in (["health"], ["workers"])
        assert operation["security"] == ([{"APIKeyHeader": []}, {"HTTPBearer": []}] if needs_key else []), label
    undescribed = [name for name, schema in document["components"]["schemas"].items() if not schema.get("description")]
    assert undescribed == []


def test_no_two_schemas_have_one_name(document: dict[str, Any]) -> None:
    """FastAPI writes the module before names that occur twice."""
    names = list(document["components"]["schemas"])
    assert [name for name in names if "__" in name or name.endswith(("-Input", "-Output"))] == []


def test_operation_ids_stay(document: dict[str, Any]) -> None:
    kept = dict(line.rsplit(" ", 1) for line in OPERATIONS.read_text("utf-8").splitlines())
    served = {label: operation["operationId"] for label, operation in _operations(document)}
    assert {label: kept.get(label) for label in served} == served
    assert len(set(served.values())) == len(served)
    if {"/api/v1/send", "/api/sessions"} <= set(document["paths"]):  # everything in one process
        assert served == kept


def test_redocly_reports_no_error(home: Path) -> None:
    assert REDOCLY.exists(), "redocly is missing: make web"
    env = {**os.environ, "REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
    command = (str(NODE), str(REDOCLY), "lint", "openapi.json", "--format=json", "--extends=recommended")
    done = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, check=False, timeout=120)
    report = json.loads(done.stdout)
    assert (done.returncode, report["totals"]["errors"]) == (0, 0), done.stdout
    # Probes have no client error.
    assert {problem["ruleId"] for problem in report["problems"]} <= {"operation-4xx-response"}, done.stdout


def test_a_client_is_generated_without_a_warning_and_with_every_operation(document: dict[str, Any], home: Path) -> None:
    generate_client(home, "generated")
    made = [each for each in (home / "generated" / "api").glob("*/*.py") if each.name != "__init__.py"]
    assert len(made) == len(list(_operations(document)))


def test_the_pages_of_the_api_are_up_to_date() -> None:
    for path, text in api_reference.render(api_reference.document()).items():
        assert path.read_text("utf-8") == text, "run: python -m scripts.api_reference"


# -- webhooks ---------------------------------------------------------------------------------------------------------


def test_the_webhooks_section_is_the_catalogue_of_events(document: dict[str, Any]) -> None:
    if "/api/v1/webhooks" not in document["paths"]:
        assert "webhooks" not in document
        return
    assert set(document["webhooks"]) == set(EventType) - INTERNAL
    for kind, methods in document["webhooks"].items():
        body = methods["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        assert document["components"]["schemas"][body]["properties"]["type"]["const"] == kind


@pytest.mark.parametrize("kind", sorted(set(EventType) - INTERNAL))
def test_every_event_is_delivered_as_its_model_says(kind: EventType) -> None:
    payload = kind.payload(**{each.name: "1750000000000" for each in fields(kind.payload)})
    stored = {"type": str(kind), "at": "1750000000000", **encode(payload)}
    is_ours = "message" in {each.name for each in fields(kind.payload)}
    about = {"to": "972501234567", "kind": "text"} if is_ours else {}
    incoming = {"from": "972501234567", "push_name": "Dana", "text": "Hi", "at": "1750000000000"}
    message = incoming if kind is EventType.MESSAGE_RECEIVED else about
    event = views._view(Entry("1-0", stored), Details(message, "972501234567" if message else "", ""))
    model = reference.event_model(kind)
    read = TypeAdapter(model).validate_python(event)
    assert read.model_dump(by_alias=True, exclude_unset=True) == event
