"""The program as it is started: its answers, its sentences, its exit codes."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import socket
import subprocess
import sys
from base64 import b64decode
from collections.abc import Sequence
from contextlib import closing
from itertools import dropwhile, takewhile
from pathlib import Path

import orjson
import pytest
import yaml

from app.cli.verbs import VERBS
from app.kube.manifests import documents
from app.model.fields import Json
from tests import make
from tests.cases import cases
from tests.kube.connecting import kubeconfig, write

ROOT = Path(__file__).parents[2]
SECONDS = 60
RUN_PORTS = ["port", "admission-port", "recommender-port", "updater-port"]
FREE_PORTS = [f"--{flag}=0" for flag in RUN_PORTS]  # whichever
NO_REVIEW = "no review given: name files with AdmissionReviews, or - to read them"
DOCUMENTS = "usage: plumbline manifests " + "|".join(documents.PRINTED)
WORD = 'unexpected word "x"; flags begin with --, and a switch is turned off with --switch=false'
OBJECTS = [make.vpa_json(cpu="250m"), make.workload_json()]
# By uid; the second one has a VPA with mistakes, the third one is no business of anybody.
REVIEWS = {
    "a": make.review_json(make.pod_json(cpu="100m"), uid="a"),
    "b": make.review_json(make.vpa_json("b", mode="Never"), uid="b"),
    "c": make.review_json(make.pod_json(owner=None), uid="c"),
}
A, B, C = (orjson.dumps(review) for review in REVIEWS.values())


def start(*words: str) -> subprocess.Popen[bytes]:
    """Start the program."""
    environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    return subprocess.Popen(
        [sys.executable, "-m", "app", *words],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def plumbline(*words: str | Path, stdin: bytes = b"") -> tuple[int, bytes, str]:
    """Run the program to its end; return exit code, output and what it complains about."""
    with start(*map(str, words)) as process:
        output, errors = process.communicate(stdin, SECONDS)
    return process.returncode, output, errors.decode()


def answered(*words: str | Path, stdin: bytes = b"") -> list[Json]:
    """Return the responses of `admit`, which must have gone well."""
    code, output, errors = plumbline("admit", *words, stdin=stdin)
    assert code == 0, errors
    lines = [orjson.loads(line) for line in output.splitlines()]
    assert all(
        (line["kind"], line["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
        for line in lines
    )
    return [line["response"] for line in lines]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with objects and reviews in files of all kinds."""
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all(OBJECTS))
    (tmp_path / "more.jsonl.gz").write_bytes(gzip.compress(orjson.dumps(OBJECTS[0])))
    (tmp_path / "a.json").write_bytes(A)
    (tmp_path / "b.yaml").write_text(yaml.safe_dump(REVIEWS["b"]))
    (tmp_path / "abc.jsonl").write_bytes(b"\n".join((A, B, C)))
    (tmp_path / "broken.jsonl").write_bytes(b"\n".join((A, b"{", B, b"null", C, b"{}")))
    (tmp_path / "garbage.json").write_bytes(b"{")
    return tmp_path


@cases(
    "words uids",
    {
        "parted by dashes": ("--objects {objects} -- {a} {b}", "ab"),
        "after the objects": ("--objects {objects} {a} {b}", "ab"),
        "before the objects": ("{b} {a} --objects {objects}", "ba"),
        "after another flag": ("--objects {objects} {more} --decode {abc}", "abc"),
        "in several files": ("--objects={objects} --objects={more} {abc} {a}", "abca"),
        "from standard input, in its place": ("--objects {objects} - {b}", "cb"),
        "from standard input at the end": ("{a} - --objects {objects}", "ac"),
        "beside broken ones": ("--objects {objects} {broken}", "a.b.c."),
        "beside broken files": ("{broken} {garbage} {a} --objects {objects}", "a.b.c..a"),
        "beside broken files, after the objects": ("--objects {objects} {a} {garbage} {b}", "a.b"),
        "nothing but a broken file": ("--objects {objects} {garbage}", "."),
        "without objects": ("{a}", "a"),
    },
)
def test_reviews_are_answered_in_their_order(folder: Path, words: str, uids: str) -> None:
    """Every review has one line, in the order in which they were named; a dot has no uid."""
    paths = {path.name.partition(".")[0]: path for path in folder.iterdir()}
    responses = answered(*words.format_map(paths).split(), stdin=C)
    assert "".join(response["uid"] or "." for response in responses) == uids
    for response in responses:
        assert response["allowed"] is (response["uid"] != "b")
        is_sized = response["uid"] == "a" and "--objects" in words
        assert ("patch" in response) is is_sized


def test_answers_are_those_of_the_wire(folder: Path) -> None:
    """The patch comes in base64 unless it is to be read by people, who are told why as well."""
    objects, review = folder / "objects.yaml", folder / "a.json"
    (plain,) = answered("--objects", objects, review)
    (decoded,) = answered("--objects", objects, "--decode", review)
    assert plain | {"patch": orjson.loads(b64decode(plain["patch"]))} == decoded
    code, output, _ = plumbline(
        "admit", "--objects", objects, "--explain", "--decode", folder / "abc.jsonl"
    )
    lines = [orjson.loads(line) for line in output.splitlines()]
    assert code == 0
    assert [line["explanation"]["reason"] for line in lines] == ["Sized", "NotAPod", "NoController"]
    assert lines[0]["explanation"]["containers"][0]["cpu"]["gets"] == {"request": "250m"}
    assert lines[0]["response"] == decoded


def test_what_is_wrong_with_objects_is_told(folder: Path) -> None:
    """An object that cannot be used is named on standard error, and the others are used."""
    (folder / "wrong.yaml").write_text("kind: Pod\napiVersion: v1\nmetadata: 7\n---\n{\n")
    code, output, errors = plumbline(
        "admit",
        "--objects",
        folder / "wrong.yaml",
        folder / "objects.yaml",
        "--",
        folder / "a.json",
    )
    assert (code, b'"patch"' in output) == (0, True)
    lines = [orjson.loads(line) for line in errors.splitlines()]
    assert [line["place"] for line in lines] == [f"{folder}/wrong.yaml:1", f"{folder}/wrong.yaml:4"]


def test_decisions_are_not_told_twice(folder: Path) -> None:
    """What the answers tell is not on standard error as well; what they cannot tell is."""
    unowned = make.review_json(make.pod_json(owner="Job/unknown"))
    (folder / "unowned.json").write_bytes(orjson.dumps(unowned))
    files = [folder / name for name in ("abc.jsonl", "unowned.json", "broken.jsonl")]
    _, _, errors = plumbline("admit", "--objects", folder / "objects.yaml", "--", *files)
    lines = [orjson.loads(line) for line in errors.splitlines()]
    assert {line["message"] for line in lines} == {"review not readable"}
    assert [line["place"] for line in lines] == [f"{files[2]}:{number}" for number in (2, 4, 6)]
    assert lines[2]["problem"] == "request: is missing"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["admitt"], 'unknown command "admitt"; did you mean "admit"?'),
        (["--objects"], 'unknown command "--objects"'),
        (["admit", "--object", "x"], 'unknown flag --object; did you mean "objects"?'),
        (
            ["admission", "--feature-gates=InPlac=true"],
            '--feature-gates: unknown feature gate "InPlac"; did you mean "InPlace"?',
        ),
        (
            ["admit", "--max-allowed-cpu-boost=much"],
            '--max-allowed-cpu-boost takes a quantity such as 500m or 2Gi, or nothing, not "much"',
        ),
        (["admit", "--v"], "-v needs a value: a whole number"),
        (["admission", "x"], WORD),
        (["admit"], NO_REVIEW),
        (["admit", "--objects", "{empty}"], NO_REVIEW),
        (["admit", "{empty}"], NO_REVIEW),
        (["admit", "-"], NO_REVIEW),
        (["admit", "/no/review"], "/no/review: No such file or directory"),
        (["admit", "--objects=/no/object", "{empty}"], "/no/object: No such file or directory"),
        (["admission", "--objects=/no/object"], "/no/object: No such file or directory"),
        (
            ["run", "--objects", "/dev/null"],
            "--objects: there are no objects to apply in /dev/null",
        ),
        (
            ["run", "--kubeconfig=config"],
            "--kubeconfig: on a real cluster run only looks on; add --dry-run, "
            "or start admission, recommender and updater",
        ),
        (
            ["run", "--dry-run", "--objects=shop.yaml"],
            "--objects: a dry run looks at a real cluster; leave out one of both",
        ),
        (["run", "--speed=0"], '--speed takes a number above zero, or max, not "0"'),
        (["admit", "/proc/self/mem"], "/proc/self/mem: Input/output error"),
        (["manifests"], DOCUMENTS),
        (["manifests", "crds"], DOCUMENTS),
        (
            ["manifests", "all", "--register-by-url"],
            "only the document webhooks is made by such flags",
        ),
        (["version", "x"], WORD),
    ],
)
def test_wrong_usage(tmp_path: Path, words: Sequence[str], sentence: str) -> None:
    """What is wrong is one sentence, and exit code 2."""
    empty = tmp_path / "empty.json"
    empty.write_bytes(b"")
    code, output, errors = plumbline(*(word.format(empty=empty) for word in words))
    assert (code, output, errors) == (2, b"", f"plumbline: {sentence}\n")


def test_help() -> None:
    """Every command tells what it takes; without any the program tells its commands."""
    code, usage, errors = plumbline("--help")
    assert (code, errors) == (0, "")
    assert plumbline() == (2, b"", usage.decode())
    for verb in VERBS:
        assert f"\n  {verb}" in usage.decode()
        code, output, errors = plumbline(verb, "--help")
        assert (code, errors) == (0, "")
        assert output.startswith(f"usage: plumbline {verb}".encode())


def test_documents() -> None:
    """What is printed for machines is complete, and the version is one line."""
    code, output, _ = plumbline("manifests", "crd")
    assert code == 0
    assert output == (ROOT / "deploy" / "crd.yaml").read_bytes()
    assert plumbline("--version")[1].startswith(b"plumbline ")


@pytest.mark.parametrize("flag", RUN_PORTS)
def test_a_taken_port_of_run(flag: str) -> None:
    """Each port of the whole is told with its own flag."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        code, output, errors = plumbline("run", *FREE_PORTS, f"--{flag}={port}")
    sentence = f"plumbline: --{flag}: cannot listen on localhost:{port}: Address already in use\n"
    assert (code, output, errors) == (2, b"", sentence)


@cases(
    "words flag",
    {
        "TLS port": ("admission {0} --address=127.0.0.1:0 --port={1}", "port"),
        "health port": ("admission {0} --port=0 --address=127.0.0.1:{1}", "address"),
        "updater": ("updater --kubeconfig={2} --address=127.0.0.1:{1}", "address"),
    },
)
def test_a_taken_port(tmp_path: Path, words: str, flag: str) -> None:
    """A port that is taken is told with its flag before anything else, and nothing is left."""
    files = f"--objects={tmp_path} --certs-dir={tmp_path} --workers=1 --host=127.0.0.1"
    config = write(tmp_path / "config", kubeconfig("http://127.0.0.1:1"))
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        code, output, errors = plumbline(*words.format(files, port, config).split())
    sentence = f"plumbline: --{flag}: cannot listen on 127.0.0.1:{port}: Address already in use\n"
    assert (code, output, errors) == (2, b"", sentence)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    """What cannot be written is told as what it is."""
    (tmp_path / "file").write_bytes(b"")
    code, output, errors = plumbline("certs", f"--certs-dir={tmp_path}/file/certs")
    assert (code, output) == (2, b"")
    assert errors.startswith(f"plumbline: {tmp_path}/file/certs")
    assert "Not a directory" in errors
    assert errors.count("\n") == 1


def test_certificates(tmp_path: Path) -> None:
    """Certificates are made once; where they lie is told every time."""
    first = plumbline("certs", f"--certs-dir={tmp_path}/certs")
    made = {path: path.read_bytes() for path in (tmp_path / "certs").iterdir()}
    assert first == plumbline("certs", f"--certs-dir={tmp_path}/certs")
    assert {path: path.read_bytes() for path in (tmp_path / "certs").iterdir()} == made
    assert first[0] == 0
    assert set(map(Path, first[1].decode().split())) <= set(made)


@pytest.mark.parametrize("lines", [1, 2_000])
def test_a_reader_that_leaves(tmp_path: Path, lines: int) -> None:
    """Who reads no further, such as `head`, ends the program in silence."""
    (tmp_path / "reviews.jsonl").write_bytes(b"\n".join([B] * lines))
    with start("admit", str(tmp_path / "reviews.jsonl")) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        if lines > 1:
            assert process.stdout.readline().startswith(b'{"kind"')
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(SECONDS) == 1
    assert errors == b""


def test_ctrl_c(tmp_path: Path) -> None:
    """Somebody who ends the program is not shown where it was."""
    pipe = tmp_path / "reviews"
    os.mkfifo(pipe)
    # Who runs tests in the background ignores it, and children would inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with start("admit", str(pipe)) as process, pipe.open("wb"):  # which waits for the reader
        signal.signal(signal.SIGINT, before)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, output, errors) == (130, b"", b"")


def in_shell(command: str) -> tuple[int, bytes, bytes]:
    """Run the program with streams as a shell makes them."""
    program = f"{sys.executable} -m app"
    done = subprocess.run(
        ["sh", "-c", command.format(program)],
        cwd=ROOT,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_closed_streams(tmp_path: Path) -> None:
    """A program without standard streams does its work all the same."""
    (tmp_path / "a.json").write_bytes(b"{")
    code, output, _ = in_shell(f"{{}} admit {tmp_path}/a.json <&- 2>&-")
    assert (code, output.count(b"\n")) == (0, 1)
    sentence = b"plumbline: standard input is closed\n"
    assert in_shell("{} admit - <&-") == (2, b"", sentence)
    assert in_shell("{} version >&-") == (0, b"", b"")


def test_a_full_disk() -> None:
    """What cannot be written any more is told in a sentence."""
    sentence = b"plumbline: No space left on device\n"
    assert in_shell("{} version >/dev/full") == (1, b"", sentence)


def commands(process: subprocess.Popen[bytes]) -> dict[str, str]:
    """Return the commands that a process prints, by the comment above each."""
    assert process.stdout is not None
    lines = (line.decode() for line in iter(process.stdout.readline, b""))
    found: dict[str, str] = {}
    comment = ""
    for line in takewhile(str.strip, dropwhile(lambda line: not line.startswith("# "), lines)):
        if line.startswith("# "):
            comment = line
        else:
            found[comment] = found.get(comment, "") + line
    return found


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_what_run_says_can_be_pasted() -> None:
    """Every command that is printed works in a shell as it is printed, and shows what it says."""
    with start("run", *FREE_PORTS) as process:
        try:
            shown = {
                comment: subprocess.run(
                    ["sh", "-c", command], capture_output=True, timeout=SECONDS, check=True
                ).stdout
                for comment, command in commands(process).items()
            }
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=SECONDS)
        finally:
            process.terminate()
    names = ("new pod", "why", "recommended", "mistakes", "decided")
    told = dict(zip(names, shown.values(), strict=True))
    assert b'"path": "/metadata/annotations/vpaObservedContainers"' in told["new pod"]
    assert orjson.loads(told["why"])["explanation"]["vpa"]["name"] == "billing"
    assert b"spec.updatePolicy.updateMode: Unsupported value" in told["mistakes"]
    assert orjson.loads(told["recommended"])["name"] == "billing"
    assert "decisions" in orjson.loads(told["decided"])
    assert (process.returncode, errors) == (0, b"")
    assert b"of the cluster's time:" in output
