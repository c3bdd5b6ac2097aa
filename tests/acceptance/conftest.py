"""What acceptance tests share: one cluster for all of a run, a namespace for each.

Strategy: the cluster is built and started here, or given by KUBECONFIG. A webhook is a program
that a module starts with the flags it needs; only one can be registered at a time.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.ports import NAMESPACES
from app.runtime.clock import SystemClock
from tests.acceptance.cluster import Cluster
from tests.acceptance.definitions import install, ours
from tests.acceptance.logs import Logs
from tests.acceptance.results import Results
from tests.acceptance.rights import prepare
from tests.acceptance.rows import Played, Rows, chosen_rows
from tests.acceptance.shares import Share
from tests.acceptance.space import Space, new_space
from tests.acceptance.stage import Stage, Team
from tests.acceptance.webhook import Webhook
from tests.acceptance.worker import Start, starting
from tests.cluster.api import Api
from tests.cluster.control_plane import ControlPlane, in_memory
from tests.cluster.given import given, has_our_nodes
from tests.cluster.parts import Unavailable, parts

_LOGS = pytest.StashKey[Logs]()
_RESULTS = pytest.StashKey[Results]()
_SHARE = pytest.StashKey[Share]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let several runs make one, and a crowd be asked for."""
    add = parser.addoption
    add("--acceptance-results", default="", help="a file to write results to")
    text = "a folder that runs share which divide the modules among them"
    add("--acceptance-share", default="", help=text)
    add("--crowd-minutes", default="0", help="let a large cluster live for so many minutes")
    add("--crowd-vpas", default="2000", help="how many VPAs it has")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to follow logs; end in good manners, programs included, also when told to."""
    config.stash[_LOGS] = Logs()
    config.stash[_RESULTS] = Results()
    config.stash[_SHARE] = Share(config.getoption("--acceptance-share"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> object:
    """Leave out what another run plays."""
    return None if item.config.stash[_SHARE].takes(item.path.stem) else True


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember where each log stands."""
    item.config.stash[_LOGS].mark()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the programs wrote during a test that failed."""
    del call
    report = yield
    if report.failed:
        report.sections.extend(item.config.stash[_LOGS].since())
    item.config.stash[_RESULTS].note(report)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write down what became of all tests, if somebody wants to know."""
    if path := session.config.getoption("--acceptance-results"):
        session.config.stash[_RESULTS].save(Path(path))


@pytest.fixture(scope="session")
def logs(pytestconfig: pytest.Config) -> Logs:
    """The logs that are shown on failure."""
    return pytestconfig.stash[_LOGS]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, logs: Logs) -> Iterator[Cluster]:
    """A cluster with our definitions, and an account for the webhook."""
    with ExitStack() as stack:
        if kubeconfig := os.environ.get("KUBECONFIG", ""):
            found = _given(kubeconfig)
        else:
            found = _started(tmp_path_factory.mktemp("cluster"), logs, stack)
        stack.callback(found.admin.close)
        install(found.admin, ours())
        prepare(found.admin)
        yield found


def _given(kubeconfig: str) -> Cluster:
    try:
        access, admin = given(kubeconfig)
    except Unavailable as error:
        pytest.exit(str(error), returncode=1)
    return Cluster(access, admin, None, "kubectl")


def _started(folder: Path, logs: Logs, stack: ExitStack) -> Cluster:
    try:
        built = parts()
    except Unavailable as error:
        pytest.exit(str(error), returncode=1)
    memory = stack.enter_context(in_memory())
    plane = ControlPlane(built, folder, SystemClock().now(), memory=memory)
    for program in plane.programs:
        logs.add(program.name, program.log)
    stack.callback(plane.stop)
    plane.start()
    admin = plane.access.api(plane.admin_token)
    return Cluster(plane.access, admin, plane, built.path("kubectl"))


@pytest.fixture(scope="session")
def admin(cluster: Cluster) -> Api:
    """A client that may do everything."""
    return cluster.admin


@pytest.fixture(scope="session")
def plane(cluster: Cluster) -> ControlPlane:
    """A control plane that may be disturbed."""
    if cluster.plane is None:
        pytest.skip("KUBECONFIG names a cluster that is not ours to disturb")
    return cluster.plane


@pytest.fixture
def space(admin: Api) -> Iterator[Space]:
    """A namespace in which pods can be created; it goes when the test is over."""
    found = new_space(admin)
    yield found
    admin.delete(NAMESPACES, "", found.name)


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path, logs: Logs) -> Iterator[Start]:
    """Starts recommenders and updaters, which end when the test is over."""
    with starting(cluster, tmp_path, logs) as found:
        yield found


@pytest.fixture(scope="module")
def team(
    cluster: Cluster,
    logs: Logs,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Team]:
    """The processes that the rows of a module share: those for which it has flags."""
    rows: Rows = request.module.ROWS
    prepare(cluster.admin, getattr(request.module, "GRANTED", ()))
    called = request.getfixturevalue("webhook") if hasattr(request.module, "WEBHOOK") else None
    with starting(cluster, tmp_path_factory.mktemp("workers"), logs) as start:
        ignored = ",".join(rows.alone())
        scope = (f"--ignored-vpa-object-namespaces={ignored}",) if ignored else ()
        flags: Mapping[str, Sequence[str]] = getattr(request.module, "WORKERS", {})
        workers = {verb: start(verb, *scope, *told) for verb, told in flags.items()}
        yield Team(
            cluster,
            start,
            called,
            workers.get("updater"),
            workers.get("recommender"),
            has_our_nodes=has_our_nodes(cluster.admin),
        )


@pytest.fixture(scope="module")
def played(team: Team, logs: Logs, request: pytest.FixtureRequest) -> Iterator[Played]:
    """All rows of a module that were chosen, under way."""
    rows: Rows = request.module.ROWS

    def stage(name: str, namespace: str) -> Stage:
        return Stage(team, name, namespace)

    found = Played(rows, chosen_rows(request), stage, logs)
    yield found
    found.close()


@pytest.fixture(scope="module")
def webhook(
    cluster: Cluster,
    logs: Logs,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Webhook]:
    """The webhook, registered and called, with the flags and workers that the module names."""
    folder = tmp_path_factory.mktemp("admission")
    flags: tuple[str, ...] = getattr(request.module, "FLAGS", ())
    workers: int = getattr(request.module, "WEBHOOK_WORKERS", 1)
    found = Webhook(cluster, folder, flags, workers=workers)
    try:
        found.start(logs)
        found.wait_until_called()
        yield found
    finally:
        found.close()
