"""``gpuloom fits``: would it fit, where, how many of them."""

from collections.abc import Iterable
from typing import Annotated

from cyclopts import Parameter

from gpuloom.cli.asking.explain import print_explanation
from gpuloom.cli.asking.flags import (
    ANSWER,
    DEPTH,
    SOURCE,
    AnswerFlags,
    DepthFlags,
    SourceFlags,
)
from gpuloom.cli.asking.manifests import Wanted, read_manifests
from gpuloom.cli.asking.namespaces import refuse_missing
from gpuloom.cli.asking.printing import print_value, write_lines
from gpuloom.cli.asking.reader import Reader
from gpuloom.cli.asking.running import ask
from gpuloom.cli.names import Name
from gpuloom.cli.outcomes import ExitCode
from gpuloom.engine.explanation.counting import tell_count
from gpuloom.web.views.values import Fits

_MOST_ROOMS = 5


def check_fit(
    filename: Annotated[Name, Parameter(name=["--filename", "-f"], allow_leading_hyphen=True)],
    *,
    namespace: Annotated[str, Parameter(name=["--namespace", "-n"])] = "",
    depth: DepthFlags = DEPTH,
    source: SourceFlags = SOURCE,
    form: AnswerFlags = ANSWER,
) -> ExitCode:
    """Tell whether a pod would fit if it was created now, where, and how many of them. Nothing is created.

    Of several in the file each is looked at alone. Exit code 0 if each fits then, 1 otherwise.

    Parameters
    ----------
    filename:
        Manifest (YAML or JSON) of pods, or of what makes pods: Deployment, StatefulSet, DaemonSet, ReplicaSet, Job,
        CronJob; - is standard input.
    namespace:
        Namespace where the manifest names none; without it the context's.

    """
    wanted = read_manifests(filename)
    outcomes: list[ExitCode] = []

    async def question(reader: Reader) -> None:
        default = namespace or reader.namespace
        told = [(one, await reader.fits(one.manifest, one.namespace or default, depth.depth)) for one in wanted]
        await refuse_missing(source, _list_needed(wanted, default))
        outcomes.extend(_judge(one, fits) for one, fits in told)
        if form.output in {"json", "yaml"}:
            items = [{"name": one.name, "replicas": one.replicas, "fits": fits} for one, fits in told]
            print_value({"items": items}, form.output)
            return
        alone = ", looked at alone" if len(told) > 1 else ""
        for one, fits in told:
            _tell(one, fits, depth, alone)

    ask(source, question)
    # A no says more than what is not known.
    return min(filter(None, outcomes), default=ExitCode.YES)


def _list_needed(wanted: Iterable[Wanted], default: str) -> list[str]:
    """List the namespaces of the pods that the file does not make itself."""
    needed = (name for one in wanted if (name := one.namespace or default) not in one.namespaces_beside)
    return list(dict.fromkeys(needed))


def _judge(wanted: Wanted, fits: Fits) -> ExitCode:
    if not fits.denied and fits.pods >= wanted.replicas:
        return ExitCode.YES
    return ExitCode.UNKNOWN if fits.is_least else ExitCode.NO


def _tell(wanted: Wanted, fits: Fits, depth: DepthFlags, alone: str) -> None:
    # What the explanation begins with is not said before it, too.
    told = fits.explanation.notes[:1] if fits.explanation is not None else ()
    write_lines(f"{wanted.name}: warning: {warning}" for warning in fits.warnings if warning not in told)
    if fits.denied:
        write_lines([f"{wanted.name}: would be denied: {fits.denied}"])
        return
    if fits.pods:
        least = "at least " if fits.is_least else ""
        rooms = ", ".join(f"{room.node} {room.pods}" for room in fits.rooms[:_MOST_ROOMS])
        more = f" and {len(fits.rooms) - _MOST_ROOMS} or more nodes" if len(fits.rooms) > _MOST_ROOMS else ""
        asked = f" of {wanted.replicas} asked for" if wanted.replicas > 1 else ""
        room = f"room for {least}{tell_count(fits.pods, 'such pod')}{asked}{alone}"
        write_lines([f"{wanted.name}: {room}: {rooms}{more}"])
    else:
        write_lines([f"{wanted.name}: {'room is not known' if fits.is_least else 'no room'}"])
    if fits.explanation is not None:
        print_explanation(fits.explanation, depth)
