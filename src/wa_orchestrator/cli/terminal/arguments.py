"""Parameters that many commands have."""

from typing import Annotated

import typer

SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
