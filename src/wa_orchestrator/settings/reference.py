"""Makes `docs/settings.md` from the class, so that the page and the program cannot disagree."""

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from wa_orchestrator.settings import CHAPTERS, FROM_FILE, GENERATED, Settings

_HEAD = """\
# Settings

Made from `src/wa_orchestrator/settings` by `python -m wa_orchestrator.settings.reference > docs/settings.md`.

Settings come from the environment, else from a file `.env` in the directory the server is started in. Those marked
with † may come as `NAME_FILE` instead, the path of a file that holds the value; so may `PROXY_URL_n`. Secrets marked
“generated” are made at the first start and kept in `secrets.json` in the data directory; `wa-orchestrator secrets`
shows them. `wa-orchestrator doctor` shows what is in effect and where each value came from.

A wrong value stops the start, with one line for each problem and an example that works. A name that looks like a
misspelled setting does nothing, and is told at the start with the name that was probably meant.
"""


def render() -> str:
    """Write the page."""
    parts = [_HEAD]
    for name, field in Settings.model_fields.items():
        if name in CHAPTERS:
            parts.append(
                f"\n## {CHAPTERS[name]}\n\n| variable | default | what it does | example |\n| --- | --- | --- | --- |\n"
            )
        parts.append(_row(name, field))
    return "".join(parts)


def _row(name: str, field: FieldInfo) -> str:
    variable = "PROXY_URL_1…n" if name == "proxy_urls" else name.upper()
    mark = " †" if name in FROM_FILE else ""
    example = field.examples[0] if field.examples else field.default
    what = " ".join((field.description or "").split())
    return f"| `{variable}`{mark} | {_default(name, field)} | {what} | `{_text(example)}` |\n"


def _default(name: str, field: FieldInfo) -> str:
    if name in GENERATED:
        return "generated"
    if field.default is PydanticUndefined:
        return "the machine's"
    return "" if field.default in (None, ()) else f"`{_text(field.default)}`"


def _text(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(str, value))
        case float():
            return f"{value:g}"
        case _:
            return str(value)


if __name__ == "__main__":
    print(render(), end="")
