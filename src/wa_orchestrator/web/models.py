"""Base classes of request bodies and responses: camelCase in JSON, snake_case in Python."""

from datetime import time
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from wa_orchestrator.domain.sessions import tags
from wa_orchestrator.settings import types
from wa_orchestrator.timestamps import iso

#: What `timestamps.iso` writes.
Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-01-31T09:30:00.000Z"])]
#: Takes milliseconds since 1970 too, as records have them; 0 is null.
OptionalTimestamp = Annotated[Timestamp | None, BeforeValidator(lambda at: iso(at) if isinstance(at, int) else at)]
#: '' is null: records have no other way to say that there is none.
OptionalText = Annotated[str | None, BeforeValidator(lambda text: text or None)]
#: Takes a `datetime.time` too.
ClockTime = Annotated[str, BeforeValidator(lambda at: f"{at:%H:%M}" if isinstance(at, time) else at)]
NextCursor = Annotated[str | None, Field(description="The cursor of the next page; null at the end.")]

#: The limits of keys, people and webhooks.
SessionNames = Annotated[
    list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]], Field(max_length=500, examples=[["worker_1"]])
]
LabelNames = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=100, examples=[["support"]])
]

#: Commas separate them in forms and files.
TagName = Annotated[str, Field(min_length=1, max_length=50, pattern=r"^[^,\x00-\x1f\x7f]+$", examples=["vip"])]
TagNames = Annotated[
    list[TagName],
    AfterValidator(lambda names: list(tags.normalized(names))),
    Field(max_length=tags.MOST, examples=[["haifa", "vip"]]),
]
TimezoneName = Annotated[str, AfterValidator(types.zone), Field(examples=["Asia/Jerusalem"])]


class RequestModel(BaseModel):
    """A request body. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True, frozen=True)


class ResponseModel(BaseModel):
    """A response body, or a part of one."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)

    @classmethod
    def of(cls, record: object, **others: Any) -> Self:
        """Return a response with the record's values for fields of the same name, and these others."""
        return cls(**{name: getattr(record, name) for name in cls.model_fields if hasattr(record, name)} | others)
