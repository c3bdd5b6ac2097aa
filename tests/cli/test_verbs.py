"""The program as it is started: its answers, its sentences, its exit codes."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from base64 import b64decode
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import orjson
import pytest
import yaml

from app.cli import main
from app.cli.verbs import VERBS
from app.kube.manifests import documents
from app.model.fields import Json
from tests import make
from tests.cases import cases
from tests.kube.connecting import kubeconfig, write
from tests.logging_state import kept

ROOT = Path(__file__).parents[2]
SECONDS = 60
RUN_PORTS = ["port", "admission-port", "recommender-port", "updater-port", "page-port"]
FREE_PORTS = [f"--{flag}=0" for flag in RUN_PORTS]  # whichever
NO_REVIEW = "no review given: name files with AdmissionReviews, or - to read them"
DOCUMENTS = "usage: plumbline manifests " + "|".join(documents.PRINTED)
WORD = (
    'unexpected word "x"; flags begin with --, take one value and may be repeated where they say '
    "so, and a switch is turned off with --switch=false"
)
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
    (tmp_path / "c.json").write_bytes(C)
    return tmp_path


@cases(
    "words uids",
    {
        "parted by dashes": ("--objects {objects} -- {a} {b}", "ab"),
        "after the objects": ("--objects {objects} {a} {b}", "ab"),
        "before the objects": ("{b} {a} --objects {objects}", "ba"),
        "after another flag": ("--objects {objects} --objects {more} --decode {abc}", "abc"),
        "in several files": ("--objects={objects} --objects={more} {abc} {a}", "abca"),
        "from standard input, in its place": ("--objects {objects} - {b}", "cb"),
        "from standard input at the end": ("{a} - --objects {objects}", "ac"),
        "in the order of their names": ("--objects {objects} {c} {b} {a}", "cba"),
        "without objects": ("{a}", "a"),
    },
)
def test_reviews_are_answered_in_their_order(folder: Path, words: str, uids: str) -> None:
    """Every review has one line, in the order in which they were named."""
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
    (folder / "wrong.yaml").write_text("kind: Pod\napiVersion: v1\nmetadata: 7\n")
    objects = [f"--objects={folder}/{name}.yaml" for name in ("wrong", "objects")]
    code, output, errors = plumbline("admit", *objects, folder / "a.json")
    assert (code, b'"patch"' in output) == (0, True)
    told = "an object: metadata: expected an object, found the number 7"
    assert errors == f"plumbline: {folder}/wrong.yaml:1: {told}\n"


BROKEN = {
    "broken.yaml": "kind: Pod\n\tmetadata: {}\n",
    "template.yaml": "kind: {{ .Values.kind }}\n",
    "broken.json": '{"kind":',
    "binary": "\0\1\2",
    "text.yaml": "just text\n",
    "kindless.yaml": "metadata: {name: web}\n",
}
READERS = {
    "admit": "--objects={} {a}",
    "explain": "web --objects={}",
    "plan": "--objects={}",
    "recommendations": "--objects={}",
    "replay": "--objects={} --events={a}",
    "run": "--objects={} " + " ".join(f"--{name}=0" for name in RUN_PORTS),
    "admission": "--objects={} --port=0",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_cannot_be_read(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends every command at once, with its name and exit code 2, before anything is printed."""
    (folder / name).write_text(BROKEN[name])
    for command, words in READERS.items():
        told = words.format(folder / name, a=folder / "a.json").split()
        with kept():
            code = main([command, *told])
        found = capsys.readouterr()
        assert (command, code, found.out) == (command, 2, "")
        assert found.err.startswith(f"plumbline: {folder / name}:")
        assert found.err.count("\n") == 1


@pytest.mark.parametrize("command", ["admit", "explain", "plan", "recommendations", "replay"])
def test_a_folder_that_cannot_be_read_whole(
    folder: Path, command: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The rest of a folder is used; the exit code says that something is missing."""
    whole, broken = folder / "whole", folder / "broken"
    for each in (whole, broken):
        each.mkdir()
        (each / "objects.yaml").write_text(yaml.safe_dump_all([*OBJECTS, make.pod_json()]))
    (broken / "again.yaml").write_text("{")
    is_replay = command == "replay"
    words = READERS[command].replace("{a}", "/dev/null" if is_replay else str(folder / "a.json"))
    words += " --start=2026-01-05T00:00:00Z" if is_replay else ""
    found = []
    for each in (whole, broken):
        with kept():
            code = main([command, *words.format(each).split()])
        found.append((code, capsysbinary.readouterr()))
    (fine, before), (code, after) = found
    assert (fine, code, after.out) == (0, 2, before.out)
    assert b"again.yaml" in after.err


def test_what_is_no_review(folder: Path) -> None:
    """It is named, with what would answer for it, before anything is answered."""
    files = [folder / name for name in ("a.json", "objects.yaml")]
    code, output, errors = plumbline("admit", f"--objects={folder}/objects.yaml", *files)
    assert (code, output) == (2, b"")
    assert errors == (
        f"plumbline: {folder}/objects.yaml:1: this is a VerticalPodAutoscaler, not an "
        "AdmissionReview; to see what its pods would get: plumbline explain vpa/web --objects "
        f"{folder}/objects.yaml\n"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["admitt"], 'unknown command "admitt"; did you mean "admit"?'),
        (["--objects"], 'unknown command "--objects"; plumbline --help lists all'),
        (["-n", "shop", "plan"], "flags come after the command: plumbline plan -n shop"),
        (["admit", "--object", "x"], "unknown flag --object; did you mean --objects?"),
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
            ["run", *FREE_PORTS, "--objects", "/dev/null"],
            "--objects: there are no objects to apply in /dev/null",
        ),
        (
            ["run", "--kubeconfig=config"],
            "--kubeconfig: run only reads a real cluster; add --dry-run, "
            "or start admission, recommender and updater",
        ),
        (
            ["run", "--dry-run", "--objects=shop.yaml"],
            "--objects: a dry run looks at a real cluster; leave out one of both",
        ),
        (["run", "--speed=0"], '--speed takes a number above zero, or max, not "0"'),
        (["admit", "/proc/self/mem"], "/proc/self/mem: Input/output error"),
        (["manifests"], DOCUMENTS),
        (["manifests", "crd", "all"], DOCUMENTS),
        (["manifests", "crds"], f'unknown document "crds"; did you mean "crd"? {DOCUMENTS}'),
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


def test_images_of_documents() -> None:
    """Each Deployment gets the image that is given; that one is missing, or not wanted, is told."""
    image = "registry.example.com:5000/team/plumbline:0.1.0"
    code, output, errors = plumbline("manifests", "all", "--image", image)
    assert (code, errors) == (0, "")
    specs = [
        item["spec"]["template"]["spec"]
        for item in yaml.safe_load_all(output)
        if item["kind"] == "Deployment"
    ]
    assert [spec["containers"][0]["image"] for spec in specs] == [image] * 3
    code, _, errors = plumbline("manifests", "updater")
    told = "no registry has the image of these Deployments; name yours with --image"
    assert (code, errors) == (0, f"plumbline: {told}\n")
    assert plumbline("manifests", "crd", f"--image={image}") == (
        2,
        b"",
        "plumbline: --image is for the documents admission, recommender, updater, page, all\n",
    )
    code, _, errors = plumbline("manifests", "all", "--image", "a b")
    assert (code, errors.startswith("plumbline: --image takes a name such as ")) == (2, True)


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
    why = f"cannot listen on localhost: Address already in use: {port} (--{flag})"
    sentence = f"plumbline: {why}; to take any free port: --{flag}=0\n"
    assert (code, output, errors) == (2, b"", sentence)


def test_all_taken_ports_of_run() -> None:
    """They are told together, with the flags that choose others; an address that is none is too."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        code, output, errors = plumbline("run", *(f"--{flag}={port}" for flag in RUN_PORTS))
    ports = ", ".join(f"{port} (--{flag})" for flag in RUN_PORTS)
    free = " ".join(f"--{flag}=0" for flag in RUN_PORTS)
    sentence = f"cannot listen on localhost: Address already in use: {ports}"
    told = f"plumbline: {sentence}; to take any free port: {free}\n"
    assert (code, output, errors) == (2, b"", told)
    nowhere = plumbline("run", "--host=192.0.2.1")[2]
    assert nowhere.startswith("plumbline: --host: cannot listen on 192.0.2.1:0: ")


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
    assert "not a directory" in errors
    assert errors.count("\n") == 1


def test_certificates(tmp_path: Path) -> None:
    """Certificates are made once; where they lie, and until when they are valid, is told always."""
    first = plumbline("certs", f"--certs-dir={tmp_path}/certs")
    made = {path: path.read_bytes() for path in (tmp_path / "certs").iterdir()}
    again = plumbline("certs", f"--certs-dir={tmp_path}/certs")
    assert {path: path.read_bytes() for path in (tmp_path / "certs").iterdir()} == made
    assert first[:2] == again[:2]
    assert first[0] == 0
    assert set(map(Path, first[1].decode().split())) <= set(made)
    for (_, _, note), done in ((first, "made a CA and a certificate"), (again, "kept the cert")):
        assert note.startswith(f"plumbline: {done}")
        assert re.search(r" for vpa-webhook\.kube-system\.svc, valid until 2\d{3}-\S+Z\n$", note)


@cases(
    "commit shown",
    {
        "of an image": ("0123456789abcdef0123", "plumbline 0.1.0 (0123456789ab)\n"),
        "of a checkout": ("", None),
    },
)
def test_version(commit: str, shown: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version names the commit, where that is known."""
    monkeypatch.setenv("PLUMBLINE_COMMIT", commit)
    code, output, errors = plumbline("version")
    assert (code, errors) == (0, "")
    if shown is None:
        assert re.fullmatch(rb"plumbline 0\.1\.0( \([0-9a-f]{12}\))?\n", output)
    else:
        assert output.decode() == shown


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
    (tmp_path / "a.json").write_bytes(A)
    code, output, _ = in_shell(f"{{}} admit {tmp_path}/a.json <&- 2>&-")
    assert (code, output.count(b"\n")) == (0, 1)
    sentence = b"plumbline: standard input is closed\n"
    assert in_shell("{} admit - <&-") == (2, b"", sentence)
    assert in_shell("{} version >&-") == (0, b"", b"")


def test_a_full_disk() -> None:
    """What cannot be written any more is told in a sentence."""
    sentence = b"plumbline: No space left on device\n"
    assert in_shell("{} version >/dev/full") == (1, b"", sentence)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_scripts_of_run_work() -> None:
    """Every script that is named runs in a shell, and shows what its name says."""
    with start("run", *FREE_PORTS) as process:
        try:
            assert process.stdout is not None
            page, opening = (process.stdout.readline().decode() for _ in range(2))
            assert page.startswith("Page: http://")
            first, *others = opening.partition(" sh ")[2].strip().split(" · ")
            folder = Path(first).parent
            told = {
                name: subprocess.run(
                    ["sh", folder / name], capture_output=True, timeout=SECONDS, check=True
                ).stdout
                for name in (Path(first).name, *others)
            }
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=SECONDS)
        finally:
            process.terminate()
    assert b'"path": "/metadata/annotations/vpaObservedContainers"' in told.pop("1-new-pod")
    assert orjson.loads(told.pop("2-why"))["vpa"]["name"] == "checkout"
    assert b"spec.updatePolicy.updateMode: Unsupported value" in told.pop("3-bad-vpa")
    assert set(told) == {"4-decisions"}
    assert not folder.exists()
    assert (process.returncode, errors) == (0, b"")
    assert b"of the cluster's time:" in output
