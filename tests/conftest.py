"""Fixtures for every test, and the one-time build of the programs that the selected tests run."""

import gc
import inspect
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import structlog

from harness import binaries, node
from harness.availability import require
from harness.cluster import Cluster
from harness.controlplane import ControlPlane
from harness.helm import Helm
from harness.leftovers import no_task_left_behind
from harness.limits import pytest_runtest_makereport  # noqa: F401 # pytest finds its hooks by name
from harness.once import NotMadeError, find_shared, make_once
from harness.stubdriver import BuildError, StubCard, StubDriver, ensure_libraries, use_stub

PROGRAMS = {
    "control_plane": binaries.KUBERNETES,
    "real_node": binaries.KUBERNETES,
    "chart": binaries.HELM,
    "cert_manager": binaries.CERT_MANAGER,
}
OBJECTS_BETWEEN_COLLECTIONS = 50_000
BUILD_FAILURES = pytest.StashKey[dict[str, str]]()


def pytest_configure() -> None:
    """Look for garbage rarely: thousands of tests stay to the end, and looking at them took a sixth of the time."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every coroutine test the check that it leaves no task behind."""
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function):
            item.fixturenames.insert(0, "watched_tasks")


@pytest.fixture(autouse=True)
def restored_logs() -> Iterator[None]:
    """Undo how a test's command set up logs: it does so for the whole process, with the test's own stderr."""
    yield
    structlog.reset_defaults()


@pytest.fixture
async def watched_tasks() -> AsyncIterator[None]:
    """Fail a test whose tasks still run after its fixtures are closed."""
    async with no_task_left_behind():
        yield


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what the selected tests run now, because a build takes longer than any test's time limit."""
    failures = session.config.stash.setdefault(BUILD_FAILURES, {})
    if session.config.option.collectonly:
        return
    gc.freeze()
    capture = session.config.pluginmanager.getplugin("capturemanager")
    shared = find_shared(session.config._tmp_path_factory)  # type: ignore[attr-defined] # fixtures come later
    for marker, module in PROGRAMS.items():
        wanted = any(item.get_closest_marker(marker) for item in session.items)
        if not wanted or module.name in failures or binaries.describe_obstacle(module):
            continue
        with capture.global_and_fixture_disabled():
            try:
                make_once(shared / f"built-{module.name}", partial(_build, module))
            except NotMadeError as error:
                failures[module.name] = str(error)


def _build(module: binaries.Module, _: Path) -> None:
    """Build into the user's cache; the folder of the run only tells the other workers that it is done."""
    binaries.ensure_all(module)


def require_programs(config: pytest.Config, module: binaries.Module) -> None:
    """Skip, or fail in CI, where a module's programs can be neither found nor built."""
    obstacle = config.stash[BUILD_FAILURES].get(module.name) or binaries.describe_obstacle(module)
    require(obstacle is None, f"no real {module.name}: {obstacle}")


@pytest.fixture(scope="session")
def stub_libraries() -> Path:
    """Return the folder of the stub of NVIDIA's libraries; skip, or fail in CI, where it cannot be compiled."""
    try:
        return ensure_libraries()
    except BuildError as error:
        require(False, f"no stub of NVIDIA's driver: {error} (see tools/debian-packages.txt)")
        raise


@pytest.fixture
def make_stub_driver(stub_libraries: Path, tmp_path: Path) -> Iterator[Callable[..., StubDriver]]:
    """Make a driver of some cards, which pynvml finds in this process until the test is over."""
    with ExitStack() as stack:

        def make(*cards: StubCard, wait_ms: int = 0) -> StubDriver:
            driver = StubDriver(tmp_path / "driver.json", *cards, wait_ms=wait_ms)
            stack.enter_context(use_stub(stub_libraries, driver))
            return driver

        yield make


@pytest.fixture(scope="session")
def control_plane_binaries(pytestconfig: pytest.Config) -> None:
    """Skip, or fail in CI, where the real Kubernetes can be neither found nor built."""
    require_programs(pytestconfig, binaries.KUBERNETES)


@pytest.fixture(scope="session")
def helm(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Return helm without a cluster; skip, or fail in CI, where it can be neither found nor built."""
    require_programs(pytestconfig, binaries.HELM)
    return Helm(tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def cert_manager_binaries(pytestconfig: pytest.Config) -> None:
    """Skip, or fail in CI, where cert-manager can be neither found nor built."""
    require_programs(pytestconfig, binaries.CERT_MANAGER)
    require(
        shutil.which("go"), "no real cert-manager: Go is not installed, and it finds the definitions of its objects"
    )


@pytest.fixture(scope="session")
def control_plane(control_plane_binaries: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a real etcd and API server, shared by all tests: give objects names of your own, and delete them."""
    with ControlPlane(tmp_path_factory.mktemp("controlplane")) as running:
        yield running


@pytest.fixture
def own_control_plane(control_plane_binaries: None, tmp_path: Path) -> Iterator[ControlPlane]:
    """Return a real etcd and API server for one test alone, to restart or fill as it likes."""
    with ControlPlane(tmp_path / "controlplane") as running:
        yield running


@pytest.fixture(scope="session")
def real_node_tools(control_plane_binaries: None) -> None:
    """Skip, or fail in CI, where a real kubelet and containers cannot run."""
    obstacle = node.describe_obstacle()
    require(obstacle is None, f"no real node: {obstacle}")


@pytest.fixture
def cluster(real_node_tools: None, tmp_path: Path) -> Iterator[Cluster]:
    """Return a whole real cluster of one node, whose kube-scheduler waits for the test to start it."""
    with Cluster(tmp_path / "cluster") as running:
        yield running
