"""The flags that commands which ask have in common, as kubectl has them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

Output = Literal["table", "wide", "json", "yaml", "name"]


@Parameter(name="*")
@dataclass(frozen=True)
class ClusterFlags:
    """Which cluster."""

    kubeconfig: str = ""
    """Kubeconfig file; without it KUBECONFIG, the pod's service account or ~/.kube/config."""
    context: str = ""
    """Context of the kubeconfig; without it the current one."""


@Parameter(name="*")
@dataclass(frozen=True)
class SourceFlags(ClusterFlags):
    """Who is asked."""

    server: Annotated[str, Parameter(env_var="GPULOOM_SERVER")] = ""
    """URL of the scheduler's pages (its --web-bind); without it they are asked through the API server."""
    server_ca: Path | None = None
    """Certificate authority (PEM) of that URL; without it the installation's, for public names the system's."""
    service: Annotated[str, Parameter(env_var="GPULOOM_SERVICE")] = ""
    """NAMESPACE/NAME of the scheduler's Service; without it the one that the webhook configuration names."""
    snapshot: Annotated[str, Parameter(name="--from", allow_leading_hyphen=True)] = ""
    """Ask a snapshot or a recording instead of a cluster; - is standard input."""


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
class OutputFlags:
    """How answers look."""

    output: Annotated[Output, Parameter(name=["--output", "-o"])] = "table"
    """Form of the answer."""
    no_headers: Annotated[bool, Parameter(negative=())] = False
    """Leave the headings out."""


@Parameter(name="*")
@dataclass(frozen=True)
class DepthFlags:
    """How much an explanation tells."""

    node: Annotated[tuple[str, ...], Parameter(negative=())] = ()
    """Tell all cards of these nodes; may be given several times."""
    nodes: Annotated[int, Parameter(validator=Number(gte=0))] = 8
    """Tell all cards of so many nodes, those nearest to fitting."""
    all_nodes: Annotated[bool, Parameter(negative=())] = False
    """Tell all cards of all nodes."""
    names: Annotated[int, Parameter(validator=Number(gte=1))] = 10
    """Name so many nodes in every list."""

    @property
    def most_nodes(self) -> int:
        """How many nodes get details."""
        return 100_000 if self.all_nodes else self.nodes


SOURCE = SourceFlags()
NAMESPACE = NamespaceFlags()
OUTPUT = OutputFlags()
DEPTH = DepthFlags()
