"""``gpuloom explain``: why a pod goes where it goes, or nowhere."""

import re
from itertools import islice
from typing import Annotated

from cyclopts import Parameter

from gpuloom.cli.asking.flags import (
    ANSWER,
    DEPTH,
    SOURCE,
    AnswerFlags,
    DepthFlags,
    SourceFlags,
)
from gpuloom.cli.asking.printing import paint, print_value, write_lines
from gpuloom.cli.asking.reader import Reader
from gpuloom.cli.asking.running import ask, choose_pod
from gpuloom.cli.names import Name
from gpuloom.engine.explanation.text import tell_briefly, tell_explanation
from gpuloom.engine.explanation.values import Explanation

_REASON = re.compile(r"(?<=: )(Card|Node|Numa|Exclusive|Resource|Allocated)[A-Za-z]+|node unregistered")


def explain_pod(
    pod: Name,
    /,
    *,
    namespace: Annotated[str, Parameter(name=["--namespace", "-n"])] = "",
    depth: DepthFlags = DEPTH,
    source: SourceFlags = SOURCE,
    form: AnswerFlags = ANSWER,
) -> None:
    """Tell where a pod can run and where not, and why, in two sentences; with -v every card and what would help.

    Parameters
    ----------
    pod:
        Name of the pod; pod/NAME and NAMESPACE/NAME will do.
    namespace:
        Namespace of the pod; without it the context's.

    """

    async def question(reader: Reader) -> None:
        where, name = choose_pod(pod, namespace or reader.namespace)
        explanation = await reader.explain(where, name, depth.depth)
        if form.output in {"json", "yaml"}:
            print_value(explanation, form.output)
        else:
            print_explanation(explanation, depth)

    ask(source, question)


def print_explanation(explanation: Explanation, depth: DepthFlags) -> None:
    """Print it for people: two sentences, and below them all the rest where it is wanted."""
    first, *others = tell_briefly(explanation, listed="" if depth.has_details else "-v lists all")
    write_lines([paint(first, "bold"), *others])
    if depth.has_details:
        # Its first line is that of the sentences.
        write_lines(map(_colour, islice(tell_explanation(explanation), 1, None)))


def _colour(line: str) -> str:
    if not line.startswith(" "):
        return paint(line, "bold")
    if line.lstrip().startswith("* "):
        return paint(line, "good")
    return _REASON.sub(lambda found: paint(found.group(), "warn"), line)
