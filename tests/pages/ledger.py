"""Who runs the commands of the pages: a walk through them, another test, or nobody, and why."""

from dataclasses import dataclass, field

from pages.reader import list_promised
from pages.reading import list_blocks


@dataclass(frozen=True, slots=True)
class Walk:
    """A test that types commands from the pages: blocks below PAGE#HEADING, and single ones that stand in sentences."""

    test: str
    sections: tuple[str, ...]
    sentences: tuple[str, ...] = field(default=())

    def promised(self) -> set[str]:
        """Return every command that this walk types."""
        return list_promised(self.sections, self.sentences)


INSTALLED = Walk(
    "tests/real/chart/test_pages.py",
    (
        "README.md#On a real cluster",
        "docs/quickstart.md#On a real cluster",
        "docs/installation.md#Install",
        "docs/installation.md#Other vendors",
        "docs/installation.md#Upgrade",
        "docs/installation.md#Uninstall",
        "docs/dashboard.md#Switching it on",
        "docs/dashboard.md#Signing in",
        "docs/doctor.md#gpuloom doctor",
        "docs/doctor.md#On a node",
    ),
    (
        "gpuloom cards",
        "gpuloom cards --state unhealthy",
        "gpuloom cordon UUID",
        "gpuloom drain-card UUID",
        "gpuloom explain POD --all-nodes",
        "gpuloom explain POD --from FILE",
        "gpuloom explain notebook",
        "gpuloom nodes",
        "gpuloom nodes NODE",
        "gpuloom pending",
        "gpuloom pods",
        "gpuloom quota",
        "gpuloom replay --check FILE",
        "gpuloom replay --explain FILE",
        "gpuloom replay FILE",
        "gpuloom snapshot > FILE",
        "gpuloom top cards",
        "gpuloom top nodes",
        "kubeadm config images list --kubernetes-version vX.Y.Z",
        "kubectl -n NAMESPACE logs daemonset/gpuloom-device-plugin",
        "kubectl annotate node NODE hami.io/mutex.lock-",
        "kubectl apply -f docs/examples/notebook.yaml",
        "kubectl describe node",
        "kubectl describe node NODE",
        "kubectl get events",
        "kubectl describe pod POD",
        "kubectl describe quota",
        "kubectl exec POD -- env",
        "kubectl get node NODE -o yaml",
        "kubectl get pod POD -o yaml",
        "kubectl gpuloom explain POD",
    ),
)
IMAGES = Walk("tests/real/chart/test_pages_images.py", ("docs/installation.md#Images",))
CERT_MANAGER = Walk("tests/real/chart/test_pages_cert_manager.py", ("docs/installation.md#Certificates",))
MIGRATED = Walk(
    "tests/real/chart/test_pages_migration.py",
    ("docs/migration.md#To gpuloom", "docs/migration.md#Back to HAMi"),
)
CLI = "docs/cli.md#"
SHELL = tuple(list_blocks("docs/quickstart.md#Without a GPU: five minutes")[1])
"""What the quick start has its reader do first, for all commands that come after."""

COMMAND_LINE = Walk(
    "tests/local/demo/test_pages.py",
    (
        f"{CLI}Is there room: `top`",
        f"{CLI}Who is where: `nodes`, `cards`, `pods`",
        f"{CLI}Why does my pod wait: `pending`, `explain`",
        f"{CLI}Would it fit: `fits`",
        f"{CLI}Who would make room: `preempt`",
        f"{CLI}Quotas: `quota`",
        f"{CLI}Taking a card out of service: `cordon`, `uncordon`, `drain-card`",
        f"{CLI}Making room by moving pods: `defrag`",
        f"{CLI}Completion: `completion`",
        "docs/own-vendor.md#2. Check it (one minute)",
    ),
    (
        *SHELL,
        "gpuloom pending -A",
        "gpuloom doctor --help",
        "gpuloom vendors",
        "gpuloom vendors --markdown",
        "gpuloom version",
    ),
)
QUICK_START = Walk(
    "tests/local/demo/test_pages.py",
    (),
    (
        *SHELL,
        "gpuloom cards --node node-a",
        "gpuloom explain giant",
        "gpuloom explain notebook",
        "gpuloom fits -f docs/examples/notebook.yaml",
        "kubectl apply -f docs/examples/notebook.yaml",
        "kubectl get events --field-selector involvedObject.name=giant",
        "kubectl get pod notebook -o wide",
        "kubectl get pods -o wide",
    ),
)
WALKS = (INSTALLED, IMAGES, CERT_MANAGER, MIGRATED, COMMAND_LINE, QUICK_START)
"""Every command of a walk is typed in it: its test compares."""

OTHERS: dict[str, tuple[str, ...]] = {
    "tests/local/bench/test_bench.py": (
        "gpuloom bench calls",
        "gpuloom bench calls --nodes 65000 --no-oracle",
        "gpuloom bench decisions",
        "gpuloom bench decisions --nodes 65000 --no-oracle",
        "gpuloom bench memory",
        "gpuloom bench memory --nodes 65000",
        "gpuloom bench vendors --nodes 5000",
    ),
    "tests/local/bench/test_scripts.py": (
        ".venv/bin/python benchmarks/defragmentation.py",
        ".venv/bin/python benchmarks/dashboard.py --browser",
        ".venv/bin/python benchmarks/explaining.py",
        ".venv/bin/python benchmarks/nominated.py",
        "PYTHONPATH=tests .venv/bin/python -m benchmarks.pairs OTHER",
        ".venv/bin/python benchmarks/preempting.py",
        ".venv/bin/python benchmarks/startup.py",
        ".venv/bin/python benchmarks/startup.py --nodes 65000 --pods 520000",
    ),
    "tests/local/cluster/test_own_vendor.py": ("gpuloom demo --vendor-dir docs/examples",),
    "tests/local/demo/test_demo.py": (
        "gpuloom demo",
        "gpuloom demo --story making-room",
        "make demo",
        "make demo ARGS=--once",
    ),
    "tests/local/asking/test_client.py": tuple(list_blocks("docs/api.md#Who may see what")[0]),
    "tests/local/monitor/test_command.py": (
        "HOOK_PATH=/usr/local/vgpu NODE_NAME=n1 gpuloom monitor --metrics-bind-address=:9394",
    ),
    "tests/local/selftest/test_selftest.py": (
        "gpuloom selftest",
        "gpuloom selftest --library /usr/local/vgpu/libvgpu.so",
        "gpuloom selftest --allow-mig",
        "gpuloom selftest --containerd off",
        "gpuloom selftest -o json > report.json",
        "make gpu",
    ),
    "tests/local/recording/test_commands.py": ("gpuloom scheduler --record FILE",),
    "tests/real/chart/test_installation.py": ("gpuloom top --server https://localhost:9396",),
    "tests/real/chart/test_gitops.py": ("kubectl delete --ignore-not-found -f FILE",),
    "tests/real/chart/test_templates.py": (
        (
            "helm template gpuloom charts/gpuloom --namespace gpu-system --kube-version 1.34.3"
            " --set global.imageRegistry=REGISTRY"
        ),
        "gpuloom device-plugin --node-name=$NODE_NAME --config-file=/device-config.yaml",
        *list_blocks("docs/certificates.md#Self-managed")[0],
        "gpuloom scheduler --web-bind ADDRESS",
    ),
    "tests/real/chaos/test_chaos.py": (
        "PYTHONPATH=tests .venv/bin/python -m benchmarks.flood 1000 7",
        "PYTHONPATH=tests .venv/bin/python benchmarks/soak.py",
        "PYTHONPATH=tests .venv/bin/python benchmarks/soak.py --plan storm",
        "make chaos",
        "make soak",
    ),
    "tests/real/chaos/test_waits.py": ("PYTHONPATH=tests .venv/bin/python benchmarks/waits.py",),
    "tests/real/scheduler/test_bindrate.py": (
        "PYTHONPATH=tests .venv/bin/python benchmarks/bindrate.py",
        "PYTHONPATH=tests .venv/bin/python benchmarks/kubescheduler.py",
    ),
    "tests/real/scheduler/test_makingroom.py": ("PYTHONPATH=tests .venv/bin/python benchmarks/makingroom.py",),
    "tests/unit/cli/test_page.py": (".venv/bin/python tools/cli/pages.py",),
    "tests/unit/cli/test_simulate.py": (
        *list_blocks("docs/cli.md#How well would it pack: `simulate`")[0],
        *list_blocks("docs/placement.md#The experiment")[1],
    ),
    "tests/unit/cli/test_vendors.py": ("gpuloom vendors --device-config-file FILE", "gpuloom vendors check FILE"),
    "tests/unit/supply/test_publish.py": ("make publish",),
    "tests/unit/supply/test_release.py": (".venv/bin/python tools/release.py > NOTES",),
    "tests/unit/docs/test_contributing_page.py": ("make clean", "make help"),
    "tests/real/chart/test_pages_objects.py": (list_blocks("docs/installation.md#Beside NVIDIA's GPU Operator")[0][1],),
    "tests/real/chart/test_publish.py": ('make publish ARGS="--registry REGISTRY --base BASE_IMAGE"',),
    "tests/unit/docs/test_site.py": ("make docs",),
    ".ci/run": (
        ".venv/bin/pytest tests/unit/engine -q",
        "make .venv/ready",
        "make check",
        "make ci",
        "make controlplane",
        "make test",
        "make unit",
    ),
}
"""Tests that run a command in a form of their own: in pods of the chart, with other files or sizes, by what it calls,
or as a part of more, as `make ci` runs all tests."""

NAMED = {
    *(
        "gpuloom cordon",
        "gpuloom defrag",
        "gpuloom device-plugin",
        "gpuloom explain",
        "gpuloom monitor",
        "gpuloom replay",
    ),
    *(
        "gpuloom scheduler",
        "gpuloom simulate",
        "kubectl annotate",
        "kubectl gpuloom",
        "buildah build",
    ),
}
"""Sentences speak of these; nobody types them as they stand."""

NOT_RUN = {
    "helm upgrade gpu-operator nvidia/gpu-operator --namespace gpu-operator --reuse-values --set"
    " devicePlugin.enabled=false": "fetches NVIDIA's chart, whose driver needs GPUs",
    "docker login": "asks a registry for an account",
    "helm registry login": "as docker login",
    "docker buildx imagetools inspect NAME:TAG": "asks a registry, and tests reach none",
    ".venv/bin/python tools/docs/placement.py": "takes minutes; tests/unit/simulation/test_published.py runs one seed",
    ".venv/bin/python tools/docs/placement.py default A": "as tools/docs/placement.py",
    "make audit": "asks the network; tests/unit/supply/test_audit.py gives what it runs each answer that there is",
    "make churns": "takes hours; tests/local/scheduler/test_preemption_churn.py runs some of them",
    "make fuzz": "takes ten minutes; tests/fuzz/test_corpus.py runs what was found, and fuzzes with a fixed chance",
    "make lock UPGRADE=": "asks the network, and changes the file that all tests run on",
    "make sbom": "asks the network; tests/unit/supply runs its parts",
    'make sbom ARGS="--base BASE_IMAGE --image REGISTRY/gpuloom/scheduler@sha256:…"': "as make sbom",
    "make unit-all": "runs all of these tests again, on other Pythons",
    ".venv/bin/python tools/supply/licences.py": "tests/unit/supply/test_licences.py compares what it writes",
    "make lock": "asks the network for the newest versions, and changes the file that all tests run on",
}
"""What no test runs, and why."""
