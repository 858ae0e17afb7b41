"""Names in a command line: an empty one, as of a shell's variable that is not set, never means all there is."""

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter, Token

from gpuloom.cli.misuse import tell_empty
from gpuloom.cli.outcomes import CommandError, ExitCode


def read_name(_type: Any, tokens: Sequence[Token]) -> str:
    """Read a name that is given.

    Raises CommandError where it is empty.
    """
    (token,) = tokens
    if not token.value:
        raise CommandError(tell_empty(token.keyword or ""), ExitCode.USAGE)
    return token.value


Name = Annotated[str, Parameter(converter=read_name)]
"""A name; where its default is empty, none was given. A validator would be asked about the default, too."""
