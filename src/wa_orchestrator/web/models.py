"""Base classes of request bodies and responses: camelCase in JSON, snake_case in Python."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from wa_orchestrator.settings import types

#: What `timestamps.iso` writes.
Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-01-31T09:30:00.000Z"])]
NextCursor = Annotated[str | None, Field(description="The cursor of the next page; null at the end.")]

TimezoneName = Annotated[str, AfterValidator(types.zone), Field(examples=["Asia/Jerusalem"])]


class RequestModel(BaseModel):
    """A request body. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True, frozen=True)


class ResponseModel(BaseModel):
    """A response body, or a part of one."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)
