"""Commands in the documents: every line of a code block that somebody could paste into a terminal, and those in a sentence."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: In the order in which somebody reads them: what to do first, then the pages, then what is beside them.
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(set(ROOT.glob("*.md")) - {ROOT / "README.md"}),
    ROOT / "worker" / "README.md",
]
#: Also within a list, where it is indented.
_BLOCK = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_SHELLS = {"", "bash", "sh", "console"}
_PROGRAMS = (
    "wa-orchestrator|curl|docker|make|cp|mkdir|install|useradd|systemctl|python3|pip|npm|"
    r"pre-commit|openapi-python-client|kubectl|helm|git|uv|pipx|scripts/\w+\.sh|age|age-keygen|apt|apt-get|rsync"
)
_IN_A_SENTENCE = re.compile(r"`((?:(wa-orchestrator|curl|make|docker(?= compose)|helm) [^`]+)|scripts/\w+\.sh)`")
_PROGRAM = re.compile(r"^(?:[A-Z_]+=\$\(|[A-Z_]+=\w+ )?(?:[\w./-]*/)?(" + _PROGRAMS + ")(?= |$)")
#: A remark beside a command: two blanks and a hash, or in a synopsis at least two blanks and words.
_REMARK = re.compile(r"\s{2,}#.*$")
#: A synopsis that goes on in the next line: options only, further to the right.
_GOES_ON = re.compile(r"(?:\s{2,}[^\n\[]*)?\n {8,}(?=\[)")


@dataclass(frozen=True)
class Documented:
    """One command, and the page that has it."""

    page: str
    program: str
    line: str
    is_mention: bool = False
    """It stands in a sentence, where the name of a command may be all there is."""

    def __str__(self) -> str:
        return f"{self.page}: {self.line}"


def commands() -> Iterator[Documented]:
    """Yield the commands of all documents in their order, lines that go on joined."""
    for page in PAGES:
        text, name = page.read_text("utf-8"), str(page.relative_to(ROOT))
        after = 0
        for block in _BLOCK.finditer(text):
            yield from _mentioned(name, text[after : block.start()])
            if block[1] in _SHELLS:
                yield from _in_block(name, block[2])
            after = block.end()
        yield from _mentioned(name, text[after:])


def _mentioned(page: str, text: str) -> Iterator[Documented]:
    for line, program in _IN_A_SENTENCE.findall(text):
        yield Documented(page, program or line, " ".join(line.split()), is_mention=True)


def _in_block(page: str, block: str) -> Iterator[Documented]:
    for line in _GOES_ON.sub(" ", re.sub(r"\\\n\s*", "", block)).splitlines():
        text = _REMARK.sub("", line.strip().removeprefix("$ "))
        if named := _PROGRAM.match(text):
            yield Documented(page, named[1], text)
