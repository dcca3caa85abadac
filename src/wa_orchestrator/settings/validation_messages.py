"""Texts of validation errors: pydantic's own are for programmers, and change with its versions."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from pydantic_core.core_schema import ErrorType

_TEXT: Final = "must be a string"
_INTEGER: Final = "must be a whole number"
_NUMBER: Final = "must be a number"
_BOOLEAN: Final = "must be true or false"
_LIST: Final = "must be a list"
_OBJECT: Final = "must be an object"
_TIMESTAMP: Final = "must be a date and time with an offset, such as 2030-01-31T09:00:00+02:00"
_DATE: Final = "must be a date, such as 2030-01-31"
_TIME: Final = "must be a time of day, such as 09:00"
_URL: Final = "must be a URL, such as https://example.com/file.pdf"
_OTHER: Final = "is invalid; see the description of this field"

#: By pydantic's error type; placeholders are filled from its context. The name of the field stands before it.
SENTENCES: Final[Mapping[str, str]] = {
    "missing": "is required",
    "extra_forbidden": "is unknown; remove it, or check its spelling",
    "none_required": "must be null or omitted",
    "json_invalid": "must be JSON",
    "json_type": "must be JSON",
    "string_type": _TEXT,
    "string_unicode": "must be UTF-8 text",
    "string_too_short": "is too short; the minimum is {min_length} characters",
    "string_too_long": "is too long; the maximum is {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "bool_type": _BOOLEAN,
    "bool_parsing": _BOOLEAN,
    "int_type": _INTEGER,
    "int_parsing": _INTEGER,
    "int_parsing_size": "is too large",
    "int_from_float": _INTEGER,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": _NUMBER,
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "multiple_of": "must be a multiple of {multiple_of}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "list_type": _LIST,
    "tuple_type": _LIST,
    "set_type": _LIST,
    "frozen_set_type": _LIST,
    "too_short": "has too few items; the minimum is {min_length}",
    "too_long": "has too many items; the maximum is {max_length}",
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dataclass_type": _OBJECT,
    "invalid_key": "must have strings as keys",
    "datetime_type": _TIMESTAMP,
    "datetime_parsing": _TIMESTAMP,
    "datetime_object_invalid": _TIMESTAMP,
    "datetime_from_date_parsing": _TIMESTAMP,
    "timezone_aware": _TIMESTAMP,
    "datetime_past": "must be in the past",
    "datetime_future": "must be in the future",
    "date_type": _DATE,
    "date_parsing": _DATE,
    "date_from_datetime_parsing": _DATE,
    "date_from_datetime_inexact": _DATE,
    "time_type": _TIME,
    "time_parsing": _TIME,
    "url_type": _URL,
    "url_parsing": _URL,
    "url_syntax_violation": _URL,
    "url_scheme": "must be a URL that begins with {expected_schemes}",
    "url_too_long": "is too long; the maximum is {max_length} characters",
}
#: Raised by our own validators, with our own text.
_OWN: Final = {"value_error": "Value error, ", "assertion_error": "Assertion failed, "}
_PYDANTIC: Final = frozenset(get_args(ErrorType))


def phrase(error: Mapping[str, Any]) -> str:
    """Return what is wrong, to follow the name: `must be a whole number`. Never contains the value itself."""
    kind = str(error["type"])
    if kind in _OWN:
        return str(error["msg"]).removeprefix(_OWN[kind])
    if kind not in _PYDANTIC:
        return str(error["msg"])
    context = error.get("ctx") or {}
    context = {name: f"{value:g}" if isinstance(value, float) else value for name, value in context.items()}
    try:
        return SENTENCES.get(kind, _OTHER).format_map(context)
    except KeyError:  # another version of pydantic has other context; a missing placeholder must not break the answer
        return _OTHER


def sentence(error: Mapping[str, Any]) -> str:
    """Return it as a sentence: `Must be a whole number.`"""
    text = phrase(error)
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
