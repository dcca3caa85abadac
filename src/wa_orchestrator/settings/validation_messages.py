"""What is wrong with a value, in our own words: the library's are for programmers, and change with its versions."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from pydantic_core.core_schema import ErrorType

_TEXT: Final = "must be a text"
_WHOLE: Final = "must be a whole number"
_NUMBER: Final = "must be a number"
_SWITCH: Final = "must be true or false"
_LIST: Final = "must be a list"
_OBJECT: Final = "must be an object with named fields"
_INSTANT: Final = "must be a date and a time with its offset, such as 2030-01-31T09:00:00+02:00"
_DATE: Final = "must be a date, such as 2030-01-31"
_CLOCK: Final = "must be a time of day, such as 09:00"
_ADDRESS: Final = "must be an address, such as https://example.com/file.pdf"
_ANYTHING: Final = "cannot be taken as it is; look at the description of this field"

#: By pydantic's type of error; the braces are filled from its context. Whoever reads it knows which field it is about.
SENTENCES: Final[Mapping[str, str]] = {
    "missing": "is missing; give it",
    "extra_forbidden": "is not known here; remove it, or look how it is spelled",
    "none_required": "must be null, or left out",
    "json_invalid": "must be JSON",
    "json_type": "must be JSON",
    "string_type": _TEXT,
    "string_unicode": "must be a text in UTF-8",
    "string_too_short": "is too short; it needs {min_length} or more characters",
    "string_too_long": "is too long; it may have {max_length} characters",
    "string_pattern_mismatch": "does not have the right form; it must match {pattern}",
    "bool_type": _SWITCH,
    "bool_parsing": _SWITCH,
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": "is too large a number",
    "int_from_float": _WHOLE,
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
    "too_short": "has too few entries; it needs {min_length} or more",
    "too_long": "has too many entries; it may have {max_length}",
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dataclass_type": _OBJECT,
    "invalid_key": "must be an object whose names are texts",
    "datetime_type": _INSTANT,
    "datetime_parsing": _INSTANT,
    "datetime_object_invalid": _INSTANT,
    "datetime_from_date_parsing": _INSTANT,
    "timezone_aware": _INSTANT,
    "datetime_past": "must be in the past",
    "datetime_future": "must be in the future",
    "date_type": _DATE,
    "date_parsing": _DATE,
    "date_from_datetime_parsing": _DATE,
    "date_from_datetime_inexact": _DATE,
    "time_type": _CLOCK,
    "time_parsing": _CLOCK,
    "url_type": _ADDRESS,
    "url_parsing": _ADDRESS,
    "url_syntax_violation": _ADDRESS,
    "url_scheme": "must be an address that begins with {expected_schemes}",
    "url_too_long": "is too long; it may have {max_length} characters",
}
#: Errors that our own checks raise: their text is ours.
_OURS: Final = {"value_error": "Value error, ", "assertion_error": "Assertion failed, "}
_OF_THE_LIBRARY: Final = frozenset(get_args(ErrorType))


def phrase(error: Mapping[str, Any]) -> str:
    """Say what is wrong, as it goes on after the name: `must be a whole number`. The value itself is never told."""
    kind = str(error["type"])
    if kind in _OURS:
        return str(error["msg"]).removeprefix(_OURS[kind])
    if kind not in _OF_THE_LIBRARY:
        return str(error["msg"])
    facts = {name: f"{fact:g}" if isinstance(fact, float) else fact for name, fact in (error.get("ctx") or {}).items()}
    try:
        return SENTENCES.get(kind, _ANYTHING).format_map(facts)
    except KeyError:  # another version of the library tells less: an answer must not break over its wording
        return _ANYTHING


def sentence(error: Mapping[str, Any]) -> str:
    """Say it as a sentence of its own: `Must be a whole number.`"""
    told = phrase(error)
    return told[:1].upper() + told[1:] + ("" if told.endswith((".", "!", "?")) else ".")
