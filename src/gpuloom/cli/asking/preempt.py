"""``gpuloom preempt --dry-run``: whom preemption would evict for a pod."""

from collections.abc import Iterator
from typing import Annotated

from cyclopts import Parameter

from gpuloom.cli.asking.flags import ANSWER, SOURCE, AnswerFlags, SourceFlags
from gpuloom.cli.asking.printing import paint, print_value, write_lines
from gpuloom.cli.asking.reader import Reader
from gpuloom.cli.asking.running import ask, choose_pod
from gpuloom.cli.asking.tables import format_age_since
from gpuloom.cli.names import Name
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.engine.explanation.text import tell_cores
from gpuloom.web.views.values import PreemptionView, VictimView

_NOT_BY_HAND = "evicting for a pod is the scheduler's to do: give --dry-run to be told whom it would evict"


def plan_preemption(
    pod: Name,
    /,
    *,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    namespace: Annotated[str, Parameter(name=["--namespace", "-n"])] = "",
    source: SourceFlags = SOURCE,
    form: AnswerFlags = ANSWER,
) -> ExitCode:
    """Tell on which node a waiting pod would have room if which pods of lower priority left. Nobody is evicted.

    Exit code 0 if there are such pods, or the pod has room as it is; 1 otherwise.

    Parameters
    ----------
    pod:
        Name of the pod; pod/NAME and NAMESPACE/NAME will do.
    dry_run:
        Only tell; without it the command refuses.
    namespace:
        Namespace of the pod; without it the context's.

    """
    if not dry_run:
        raise CommandError(_NOT_BY_HAND, ExitCode.USAGE)
    found: list[PreemptionView] = []

    async def question(reader: Reader) -> None:
        where, name = choose_pod(pod, namespace or reader.namespace)
        view = await reader.preempt(where, name)
        found.append(view)
        if form.output in {"json", "yaml"}:
            print_value(view, form.output)
        else:
            lines = _tell(view)
            write_lines([paint(next(lines), "bold"), *lines])

    ask(source, question)
    return ExitCode.YES if found and found[0].node else ExitCode.NO


def _tell(view: PreemptionView) -> Iterator[str]:
    yield f"pod {view.pod.full_name} (priority {view.priority}): {view.headline}"
    yield from (f"  {line}" for victim in view.victims for line in _tell_victim(victim))
    if view.leaving:
        yield f"  counted on, for they end already: {', '.join(pod.full_name for pod in view.leaving)}"
    if view.not_looked_at:
        yield f"  not looked at: {view.not_looked_at}"


def _tell_victim(victim: VictimView) -> Iterator[str]:
    age = f", since {format_age_since(victim.started_at)}" if victim.started_at else ""
    budgets = f", protected by {', '.join(victim.budgets)}" if victim.budgets else ""
    yield f"{victim.pod.full_name}: priority {victim.priority}{age}{budgets}"
    for share in victim.held:
        yield f"  {share.uuid}: {share.memory_mib:,} MiB, {tell_cores(share.cores)}"
