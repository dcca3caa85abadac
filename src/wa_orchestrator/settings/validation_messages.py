"""Texts of validation errors: pydantic's own are for programmers, and change with its versions."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from pydantic_core.core_schema import ErrorType

_OTHER: Final = "is invalid; see the description of this field"
#: Text → pydantic's error types; placeholders are filled from the error's context. The field's name stands before it.
_TYPES: Final = {
    "is required": "missing",
    "is unknown; remove it, or check its spelling": "extra_forbidden",
    "must be null or omitted": "none_required",
    "must be JSON": "json_invalid json_type",
    "must be a string": "string_type",
    "must be UTF-8 text": "string_unicode",
    "is too short; the minimum is {min_length} characters": "string_too_short",
    "is too long; the maximum is {max_length} characters": "string_too_long url_too_long",
    "must match {pattern}": "string_pattern_mismatch",
    "must be true or false": "bool_type bool_parsing",
    "must be a whole number": "int_type int_parsing int_from_float",
    "is too large": "int_parsing_size",
    "must be a number": "float_type float_parsing finite_number",
    "must be more than {gt}": "greater_than",
    "must be {ge} or more": "greater_than_equal",
    "must be less than {lt}": "less_than",
    "must be {le} or less": "less_than_equal",
    "must be a multiple of {multiple_of}": "multiple_of",
    "must be {expected}": "literal_error enum",
    "must be a list": "list_type tuple_type set_type frozen_set_type",
    "has too few items; the minimum is {min_length}": "too_short",
    "has too many items; the maximum is {max_length}": "too_long",
    "must be an object": "dict_type mapping_type model_type model_attributes_type dataclass_type",
    "must have strings as keys": "invalid_key",
    "must be a date and time with an offset, such as 2030-01-31T09:00:00+02:00": (
        "datetime_type datetime_parsing datetime_object_invalid datetime_from_date_parsing timezone_aware"
    ),
    "must be in the past": "datetime_past",
    "must be in the future": "datetime_future",
    "must be a date, such as 2030-01-31": (
        "date_type date_parsing date_from_datetime_parsing date_from_datetime_inexact"
    ),
    "must be a time of day, such as 09:00": "time_type time_parsing",
    "must be a URL, such as https://example.com/file.pdf": "url_type url_parsing url_syntax_violation",
    "must be a URL that begins with {expected_schemes}": "url_scheme",
}
SENTENCES: Final[Mapping[str, str]] = {kind: text for text, kinds in _TYPES.items() for kind in kinds.split()}
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
