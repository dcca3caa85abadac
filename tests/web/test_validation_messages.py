"""What a wrong request is told: in our words, with what to do, never with the library's sentences or the value."""

from enum import StrEnum
from typing import Annotated, Any, Literal, get_args

import httpx
import pytest
from fastapi import APIRouter
from pydantic import AwareDatetime, Field, HttpUrl, model_validator
from pydantic_core import PydanticKnownError
from pydantic_core.core_schema import ErrorType
from redis.asyncio import Redis

from wa_orchestrator.context import make_context
from wa_orchestrator.settings import Settings, validation_messages
from wa_orchestrator.web.app import make_app
from wa_orchestrator.web.models import RequestModel


class Kind(StrEnum):
    IMAGE = "image"
    SOUND = "sound"


class Inner(RequestModel):
    depth: int = 0


class Wish(RequestModel):
    name: Annotated[str, Field(min_length=2, max_length=5)] = "name"
    code: Annotated[str, Field(pattern=r"^\d+$")] = "1"
    count: Annotated[int, Field(ge=1, le=9)] = 1
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    on: bool = True
    choice: Literal["a", "b"] = "a"
    kind: Kind = Kind.IMAGE
    many: list[int] = Field(default=[1], min_length=1, max_length=2)
    inner: Inner = Inner()
    facts: dict[str, int] = Field(default={})
    at: AwareDatetime | None = None
    url: HttpUrl | None = None

    @model_validator(mode="after")
    def _agree(self) -> "Wish":
        if self.count == 9 and not self.on:
            raise ValueError("Give count or on, not both")
        return self


async def told(body: Any, query: str = "") -> list[dict[str, str]]:
    routes = APIRouter()

    @routes.post("/wish")
    async def wish(wish: Wish, limit: Annotated[int, Field(ge=1)] = 1) -> None:
        raise AssertionError(wish, limit)

    app = make_app(make_context(Settings(), Redis()), [routes])  # no route of it uses Redis
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
        answer = await client.post(f"/wish{query}", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_FAILED")
    errors: list[dict[str, str]] = answer.json()["error"]["errors"]
    return errors


FACTS = (
    "min_length", "max_length", "pattern", "gt", "ge", "lt", "le", "multiple_of", "expected", "expected_schemes",
)  # fmt: skip
INSTANT = "Must be a date and time with an offset, such as 2030-01-31T09:00:00+02:00."


@pytest.mark.parametrize(
    ("body", "path", "code", "message"),
    [
        ({"name": 5}, "name", "string_type", "Must be a string."),
        ({"name": "x"}, "name", "string_too_short", "Is too short; the minimum is 2 characters."),
        ({"name": "canary"}, "name", "string_too_long", "Is too long; the maximum is 5 characters."),
        ({"code": "x"}, "code", "string_pattern_mismatch", r"Must match ^\d+$."),
        ({"count": "x"}, "count", "int_parsing", "Must be a whole number."),
        ({"count": 1.5}, "count", "int_from_float", "Must be a whole number."),
        ({"count": []}, "count", "int_type", "Must be a whole number."),
        ({"count": 0}, "count", "greater_than_equal", "Must be 1 or more."),
        ({"count": 10}, "count", "less_than_equal", "Must be 9 or less."),
        ({"share": 0}, "share", "greater_than", "Must be more than 0."),
        ({"share": 1}, "share", "less_than", "Must be less than 1."),
        ({"share": "x"}, "share", "float_parsing", "Must be a number."),
        ({"on": "perhaps"}, "on", "bool_parsing", "Must be true or false."),
        ({"choice": "c"}, "choice", "literal_error", "Must be 'a' or 'b'."),
        ({"kind": "smell"}, "kind", "enum", "Must be 'image' or 'sound'."),
        ({"many": []}, "many", "too_short", "Has too few items; the minimum is 1."),
        ({"many": [1, 2, 3]}, "many", "too_long", "Has too many items; the maximum is 2."),
        ({"many": 1}, "many", "list_type", "Must be a list."),
        ({"many": ["x"]}, "many.0", "int_parsing", "Must be a whole number."),
        ({"inner": 1}, "inner", "model_attributes_type", "Must be an object."),
        ({"inner": {"deep": 1}}, "inner.deep", "extra_forbidden", "Is unknown; remove it, or check its spelling."),
        ({"facts": 1}, "facts", "dict_type", "Must be an object."),
        ({"at": "soon"}, "at", "datetime_from_date_parsing", INSTANT),
        ({"at": "2030-01-31T09:00:00"}, "at", "timezone_aware", INSTANT),
        ({"url": "nowhere"}, "url", "url_parsing", "Must be a URL, such as https://example.com/file.pdf."),
        ({"url": "ftp://canary"}, "url", "url_scheme", "Must be a URL that begins with 'http' or 'https'."),
        ({"count": 9, "on": False}, "", "value_error", "Give count or on, not both."),
        ([], "", "model_attributes_type", "Must be an object."),
    ],
)  # fmt: skip
async def test_each_problem_is_told_with_its_path_its_code_and_what_to_do(
    body: Any, path: str, code: str, message: str
) -> None:
    (error,) = await told(body)
    assert error == {"path": path, "code": code, "message": message}
    assert "canary" not in message


async def test_a_missing_body_and_a_wrong_query_are_told_alike() -> None:
    assert await told(None) == [{"path": "", "code": "missing", "message": "Is required."}]
    (error,) = await told({}, "?limit=0")
    assert error == {"path": "limit", "code": "greater_than_equal", "message": "Must be 1 or more."}


@pytest.mark.parametrize("kind", sorted(set(get_args(ErrorType)) - {"value_error", "assertion_error"}))
def test_no_sentence_of_the_library_is_passed_on(kind: str) -> None:
    contexts: tuple[dict[str, str], ...] = ({}, dict.fromkeys(FACTS, "7"))
    for context in contexts:
        said = validation_messages.sentence({"type": kind, "msg": "Input should be canary", "ctx": context})
        assert "canary" not in said
        assert "{" not in said
        assert said.endswith(".")


@pytest.mark.parametrize(
    ("kind", "context"),
    [
        ("string_too_long", {"max_length": 5}), ("string_too_short", {"min_length": 5}), ("too_long", {"field_type": "L", "max_length": 5, "actual_length": 6}),
        ("greater_than", {"gt": 5}), ("greater_than_equal", {"ge": 5}), ("less_than", {"lt": 5}), ("less_than_equal", {"le": 5}),
        ("multiple_of", {"multiple_of": 5}), ("string_pattern_mismatch", {"pattern": "5"}), ("enum", {"expected": "5"}),
        ("literal_error", {"expected": "5"}), ("url_scheme", {"expected_schemes": "5"}), ("url_too_long", {"max_length": 5}),
    ],
)  # fmt: skip
def test_the_library_still_names_what_our_sentences_tell(kind: Any, context: dict[str, Any]) -> None:
    known = PydanticKnownError(kind, context)
    assert "5" in validation_messages.sentence({"type": kind, "msg": known.message(), "ctx": known.context})


def test_every_sentence_is_for_an_error_that_exists() -> None:
    assert validation_messages.SENTENCES.keys() - set(get_args(ErrorType)) == set()
