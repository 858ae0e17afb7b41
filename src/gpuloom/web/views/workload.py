"""The pods that the policy ``fragmentation`` expects."""

from collections.abc import Iterator

from gpuloom.web.views.source import Source
from gpuloom.web.views.values import WorkloadView


def list_workload(source: Source) -> Iterator[WorkloadView]:
    """Give the shapes of pods that are to be expected, the commonest first."""
    mix = source.state.cluster.outlook.mix
    for shape, count in mix.counts.items():
        yield WorkloadView(
            part=round(count / mix.pods, 6),
            vendor=shape.vendor,
            cards=shape.cards,
            memory_mib=shape.memory_mib,
            memory_percentage=shape.memory_percent,
            cores=shape.cores,
            cpu_milli=shape.cpu_milli,
            models=shape.models,
            not_models=shape.not_models,
        )
