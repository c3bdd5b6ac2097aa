"""The verbs that ask, as they are typed: formats, colours, exit codes, and as a plugin."""

from __future__ import annotations

import io
import os
import pty
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from contextlib import closing, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path

import orjson
import pytest
import yaml

from app.cli import main
from app.cli.showing import show
from app.cli.verbs import PLUGIN, VERBS
from app.output import Output, Report, Text, line
from tests import make
from tests.kube.connecting import kubeconfig, write
from tests.logging_state import kept

ROOT = Path(__file__).parents[2]
SECONDS = 60
RUN_PORTS = ("", "admission-", "recommender-", "updater-", "page-")
PORTS = [f"--{name}port=0" for name in RUN_PORTS]
OBJECTS = [make.vpa_json(cpu="250m"), make.workload_json(), make.pod_json(cpu="100m")]


def plumbline(*words: str, **environment: str) -> tuple[int, str, str]:
    """Run the program to its end; return exit code, output and what it complains about."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    output, errors = streams
    with (
        pytest.MonkeyPatch.context() as patched,
        kept(),
        redirect_stdout(output),
        redirect_stderr(errors),
    ):
        patched.chdir(ROOT)
        patched.delenv("KUBECONFIG", raising=False)
        for name, value in environment.items():
            patched.setenv(name, value)
        code = main(words)
    told = [stream.detach().getvalue().decode() for stream in streams]
    return code, told[0], told[1]


@pytest.fixture
def objects(tmp_path: Path) -> str:
    """Return the path of a file with objects."""
    path = tmp_path / "objects.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps(item) for item in OBJECTS))
    return str(path)


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (["recommendations", "-o", "name"], "verticalpodautoscaler.autoscaling.k8s.io/web\n"),
        (["recommendations", "-ocsv"], "namespace,vpa,mode,workload,pods,container,resource,"),
        (["recommendations", "-A", "--output=json"], '{"namespace":"default","vpa":"web"'),
        (["explain", "web-0", "-o=yaml"], "---\nkind: Pod\nnamespace: default\n"),
        (["explain", "vpa/web"], "VPA default/web\n"),
        (["plan", "-o", "name"], "pod/web-0\n"),
        (["plan", "-A"], "NAMESPACE  POD    VPA  ACTION  REASON  "),
    ],
)
def test_formats(objects: str, words: list[str], start: str) -> None:
    """Every verb that asks shows what it found in the format that was asked for."""
    code, output, errors = plumbline(*words, "--objects", objects)
    assert (code, errors) == (0, "")
    assert output.startswith(start)


def test_formats_of_verbs_without_a_cluster(tmp_path: Path) -> None:
    """Also what is printed for machines anyway has the formats of the others."""
    assert plumbline("version", "-o", "name") == (0, "plumbline\n", "")
    assert orjson.loads(plumbline("version", "-ojson")[1])["name"] == "plumbline"
    paths = plumbline("certs", f"--certs-dir={tmp_path}", "-o", "csv")[1].splitlines()
    assert paths[0] == "path,made,validUntil"
    assert all(Path(path.partition(",")[0]).is_file() for path in paths[1:])


def test_webhook_configurations() -> None:
    """They are printed as YAML that can be applied; what is missing is said beside it."""
    code, text, errors = plumbline("manifests", "webhooks")
    kinds = [item["kind"] for item in yaml.safe_load_all(text)]
    assert (code, kinds) == (0, ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
    assert errors.startswith("plumbline: without --client-ca-file or --inject-ca-from ")


@pytest.mark.parametrize(
    ("output", "start"),
    [
        ("table", "KIND                      NAMESPACE  NAME\nCustomResourceDefinition  -"),
        ("name", "customresourcedefinition.apiextensions.k8s.io/verticalpodautoscalers."),
        ("json", '{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition"'),
        ("yaml", "# What `plumbline manifests crd` prints"),
    ],
)
def test_formats_of_documents(output: str, start: str) -> None:
    """What is applied to a cluster can be looked at before."""
    code, text, errors = plumbline("manifests", "crd", "-o", output)
    assert (code, errors) == (0, "")
    assert text.startswith(start)


def on_terminal(*words: str, stream: str = "stdout", **environment: str) -> bytes:
    """Return what the program shows on a terminal to which one of its streams leads."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "app", *words],
        cwd=ROOT,
        env=os.environ | {"TERM": "xterm"} | environment,
        stdout=theirs if stream == "stdout" else subprocess.DEVNULL,
        stderr=theirs if stream == "stderr" else subprocess.DEVNULL,
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # which is how a terminal ends
            pass
        process.wait(SECONDS)
    os.close(ours)
    return shown


@pytest.mark.parametrize("is_bad", [True, False])
def test_problems_have_an_exit_code(is_bad: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """What was found stands on standard output, notes on standard error; 1 tells of problems."""
    report = Report(Text([line("found")]), [], [], ["noted"], is_bad=is_bad)
    assert show(report, Output.TABLE, {}) == is_bad
    assert capsys.readouterr() == ("found\n", "plumbline: noted\n")


@pytest.mark.parametrize(
    ("environment", "is_coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_colours(objects: str, environment: Mapping[str, str], is_coloured: bool) -> None:
    """There are colours on a terminal alone, and only if they are not refused."""
    shown = on_terminal("recommendations", "--objects", objects, **environment)
    assert (b"\033[" in shown) is is_coloured
    assert b"\033" not in plumbline("recommendations", "--objects", objects)[1].encode()


def test_problems_on_a_terminal() -> None:
    """Their sentences are wrapped at words, and commands stand whole below them."""
    words = ["plan", "--objects", "docs/examples/with-hpa.yaml"]
    shown = on_terminal(*words, stream="stderr", COLUMNS="80").decode().splitlines()
    assert shown[0].startswith("plumbline: warning: vpa/web -n shop: HorizontalPodAutoscaler/web ")
    commands = [one for one in shown if one.startswith("  $ kubectl ")]
    assert len(commands) == 2
    assert all(one.endswith("]'") for one in commands)
    assert max(len(one) for one in shown if one not in commands) <= 80


def test_a_cluster_that_cannot_be_reached(tmp_path: Path) -> None:
    """Exit code 3 and a sentence that says what to look at; KUBECONFIG names the cluster."""
    with closing(socket.socket()) as held:  # bound and not listening: nothing else answers there
        held.bind(("127.0.0.1", 0))
        path = write(tmp_path / "config", kubeconfig(f"http://127.0.0.1:{held.getsockname()[1]}"))
        for words in (
            ["recommendations", "-A"],
            ["plan", "-A"],
            ["explain", "web-0"],
            ["doctor"],
            ["run", "--dry-run", "-n", "shop", *PORTS],
        ):
            code, output, errors = plumbline(*words, KUBECONFIG=str(path))
            assert (code, output) == (3, "")
            assert errors.startswith("plumbline: the cluster cannot be reached: ")
            assert errors.endswith("or choose another --kubeconfig or --context\n")
            assert errors.count("\n") == 1


def test_a_user_who_is_not_logged_in(tmp_path: Path) -> None:
    """A plugin that gives no credentials is told in sentences, by `run` as well."""
    version = "client.authentication.k8s.io/v1"
    failing = {"apiVersion": version, "command": "false", "interactiveMode": "Never"}
    user = {"exec": failing}
    path = write(tmp_path / "config", kubeconfig("https://127.0.0.1:1", user=user))
    for words in (["doctor"], ["run", "--dry-run", *PORTS]):
        code, output, errors = plumbline(*words, f"--kubeconfig={path}")
        assert (code, output) == (3, "")
        *said, sentence = errors.splitlines()
        # What the plugin's runner says comes first, as a sentence as well.
        assert said in ([], ["plumbline: exec: process returned 1"])
        assert sentence == (
            f'plumbline: authentication failed: kubeconfig {path}: the exec plugin "false" of user '
            '"me" gave no credentials; log in, or choose another --context'
        )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--kubeconfig=/none"], "kubeconfig /none: no such file"),
        (["--kubeconfig={0}/garbage"], "kubeconfig {0}/garbage: invalid YAML: "),
        (["--kubeconfig={0}/config", "--context=none"], "kubeconfig {0}/config: there is no "),
        ([], "kubeconfig {0}/.kube/config: no such file; give one with --kubeconfig"),
    ],
)
@pytest.mark.parametrize(
    "verb",
    [["recommendations"], ["plan"], ["explain", "web-0"], ["doctor"], ["updater"], ["recommender"]],
    ids=lambda words: words[0],
)
def test_a_cluster_that_is_not_named(
    tmp_path: Path, verb: list[str], words: list[str], sentence: str
) -> None:
    """Not to say where the cluster is, or to say it wrong, is wrong usage, whatever the verb."""
    write(tmp_path / "config", kubeconfig("http://127.0.0.1:1"))
    (tmp_path / "garbage").write_text("contexts: [\n")
    told = [word.format(tmp_path) for word in words]
    code, output, errors = plumbline(*verb, *told, HOME=str(tmp_path))
    assert (code, output) == (2, "")
    assert errors.startswith(f"plumbline: {sentence.format(tmp_path)}")
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["explain"],
            "say what to explain: a pod, a VPA, a workload such as deploy/web, or --selector",
        ),
        (
            ["recommendations", "-o", "xml"],
            '--output takes table, wide, json, yaml, csv or name, not "xml"',
        ),
        (["recommendations", "-l", "a b"], "--selector takes a label selector such as"),
        (["recommendations", "-x"], "unknown flag -x"),
        (["recommendations", "--context=none", "--kubeconfig=/none"], "kubeconfig /none"),
    ],
)
def test_wrong_usage(words: list[str], sentence: str, objects: str) -> None:
    """What is wrong is one sentence, and exit code 2."""
    more = [] if "--kubeconfig=/none" in words else ["--objects", objects]
    code, output, errors = plumbline(*words, *more)
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert errors.startswith(f"plumbline: {sentence}")


def test_a_mistake_of_the_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even a defect is a sentence, unless its traceback is asked for."""

    def broken(_words: object, _environment: object) -> int:
        raise RuntimeError("a defect")

    monkeypatch.setitem(VERBS, "version", broken)
    assert main(["version"]) == 1
    told = "this is a bug of Plumbline: RuntimeError: a defect"
    assert capsys.readouterr().err.startswith(f"plumbline: {told}")
    monkeypatch.setenv("PLUMBLINE_TRACE", "1")
    with pytest.raises(RuntimeError):
        main(["version"])


def test_a_plugin_of_kubectl(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script that kubectl looks for is this program, and calls itself as people call it."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    module, _, name = scripts[PLUGIN].partition(":")
    assert scripts[PLUGIN] == scripts["plumbline"]
    assert getattr(import_module(module), name) is main
    monkeypatch.setattr(sys, "argv", [f"/usr/local/bin/{PLUGIN}", "explain", "--help"])
    assert main() == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: kubectl plumbline explain ")
    assert "\n  kubectl plumbline explain vpa/web\n" in shown


PAGE = ROOT / "docs" / "commands.md"
CONSOLE = re.compile(r"^```console\n\$ plumbline (.*)\n((?s:.*?))```$", re.M)
SHOWN = [
    found
    for page in (PAGE, PAGE.with_name("with-hpa.md"))
    for found in CONSOLE.findall(page.read_text("utf-8"))
]


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[one[0].split()[0] for one in SHOWN])
def test_the_pages_show_what_one_gets(command: str, shown: str) -> None:
    """What the documentation shows is what the program prints, with 1 if that has errors."""
    code, output, errors = plumbline(*command.split())
    assert (code, output) == (int(" error: " in shown), shown)
    assert all(" warning: " in one or one.startswith("  $ ") for one in errors.splitlines())


def test_the_page_names_every_verb() -> None:
    """No verb is forgotten in the table of the documentation."""
    table = PAGE.read_text("utf-8").split("\n- [What")[0]
    assert set(re.findall(r"`([a-z]+)`(?=,? ?[|`])", table)) == set(VERBS)
