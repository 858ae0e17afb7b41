"""The flags that commands which ask have in common, as kubectl has them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from gpuloom.cli.names import Name
from gpuloom.client.way import SERVER_VARIABLE, SERVICE_VARIABLE, Way
from gpuloom.engine.explanation.depth import Depth

_ALL_NODES = 100_000
_MOST_NODES = 8
Output = Literal["table", "wide", "json", "yaml", "name"]
AnswerOutput = Literal["table", "json", "yaml"]


@Parameter(name="*")
@dataclass(frozen=True)
class ClusterFlags:
    """Which cluster."""

    kubeconfig: str = ""
    """Kubeconfig file; without it KUBECONFIG, the pod's service account or ~/.kube/config."""
    context: str = ""
    """Context of the kubeconfig; without it the current one."""

    @property
    def way(self) -> Way:
        """The way to the cluster."""
        return Way(self.kubeconfig, self.context)


@Parameter(name="*")
@dataclass(frozen=True)
class SourceFlags(ClusterFlags):
    """Who is asked."""

    server: Annotated[str, Parameter(env_var=SERVER_VARIABLE)] = ""
    """URL of the scheduler's pages (its --web-bind); without it they are asked through the API server."""
    server_ca: Path | None = None
    """Certificate authority (PEM) of that URL; without it the installation's, for public names the system's."""
    service: Annotated[str, Parameter(env_var=SERVICE_VARIABLE)] = ""
    """NAMESPACE/NAME of the scheduler's Service; without it the one that the webhook configuration names."""
    snapshot: Annotated[Name, Parameter(name="--from", allow_leading_hyphen=True)] = ""
    """Ask a snapshot or a recording instead of a cluster; - is standard input."""

    @property
    def way(self) -> Way:
        """The way to the scheduler."""
        return Way(self.kubeconfig, self.context, self.server, self.server_ca, self.service)


@Parameter(name="*")
@dataclass(frozen=True)
class NamespaceFlags:
    """Which namespaces."""

    namespace: Annotated[str, Parameter(name=["--namespace", "-n"])] = ""
    """Namespace; without it the context's."""
    all_namespaces: Annotated[bool, Parameter(name=["--all-namespaces", "-A"], negative=())] = False
    """All namespaces that may be seen."""


@Parameter(name="*")
@dataclass(frozen=True)
class SelectorFlags:
    """Which items of a list."""

    selector: Annotated[str, Parameter(name=["--selector", "-l"])] = ""
    """Only those with these labels, such as disk=ssd: pods by their own, nodes and cards by the node's."""


@Parameter(name="*")
@dataclass(frozen=True)
class ListFlags:
    """In which order, and whether to stay."""

    sort_by: str = ""
    """Sort by this field of -o json, such as .memory.used."""
    watch: Annotated[bool, Parameter(name=["--watch", "-w"], negative=())] = False
    """After the list, print what changes, until Ctrl-C."""
    output_watch_events: Annotated[bool, Parameter(negative=())] = False
    """With --watch, say of each line whether it was ADDED, MODIFIED or DELETED."""


@Parameter(name="*")
@dataclass(frozen=True)
class PodListFlags(ListFlags):
    """The same of pods with cards. Help is read from the class, and what it names must be a field of the list."""

    sort_by: str = ""
    """Sort by this field of -o json, such as .memoryMib."""


@Parameter(name="*")
@dataclass(frozen=True)
class PendingListFlags(ListFlags):
    """The same of pods that wait."""

    sort_by: str = ""
    """Sort by this field of -o json, such as .waitingS."""


@Parameter(name="*")
@dataclass(frozen=True)
class QuotaListFlags(ListFlags):
    """The same of quotas."""

    sort_by: str = ""
    """Sort by this field of -o json, such as .used."""


@Parameter(name="*")
@dataclass(frozen=True)
class WorkloadListFlags(ListFlags):
    """The same of pods that are expected."""

    sort_by: str = ""
    """Sort by this field of -o json, such as .part."""


@Parameter(name="*")
@dataclass(frozen=True)
class AnswerFlags:
    """How an answer looks that is no list."""

    output: Annotated[AnswerOutput, Parameter(name=["--output", "-o"])] = "table"
    """Form of the answer."""


@Parameter(name="*")
@dataclass(frozen=True)
class OutputFlags:
    """How lists look."""

    output: Annotated[Output, Parameter(name=["--output", "-o"])] = "table"
    """Form of the answer."""
    no_headers: Annotated[bool, Parameter(negative=())] = False
    """Leave the headings out."""


@Parameter(name="*")
@dataclass(frozen=True)
class DepthFlags:
    """How much an explanation tells."""

    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], negative=())] = False
    """Tell all, not the two sentences alone: what is asked for, each reason, each card with its numbers."""
    node: Annotated[tuple[str, ...], Parameter(negative=())] = ()
    """Tell all cards of these nodes; may be given several times."""
    nodes: Annotated[int, Parameter(validator=Number(gte=0))] = _MOST_NODES
    """Tell all cards of so many nodes, those nearest to fitting."""
    all_nodes: Annotated[bool, Parameter(negative=())] = False
    """Tell all cards of all nodes."""
    names: Annotated[int, Parameter(validator=Number(gte=1))] = 10
    """Name so many nodes in every list."""

    @property
    def has_details(self) -> bool:
        """Whether more than two sentences is wanted; whoever says of which nodes wants it too."""
        return self.verbose or bool(self.node) or self.all_nodes or self.nodes != _MOST_NODES

    @property
    def depth(self) -> Depth:
        """The same for those who explain."""
        most_nodes = _ALL_NODES if self.all_nodes else self.nodes
        return Depth(nodes=frozenset(self.node), most_nodes=most_nodes, most_names=self.names)


SOURCE = SourceFlags()
NAMESPACE = NamespaceFlags()
SELECTOR = SelectorFlags()
LISTING = ListFlags()
POD_LISTING = PodListFlags()
PENDING_LISTING = PendingListFlags()
QUOTA_LISTING = QuotaListFlags()
WORKLOAD_LISTING = WorkloadListFlags()
ANSWER = AnswerFlags()
OUTPUT = OutputFlags()
DEPTH = DepthFlags()
