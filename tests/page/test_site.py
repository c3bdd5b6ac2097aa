"""Each path shows its page, the same view is its JSON, and what is not there is said."""

from __future__ import annotations

from datetime import timedelta
from importlib.resources import files

import pytest

from app.model.fields import Json
from app.page.pictures import Pictures
from app.page.rendering import NOTHING, exact, whole
from tests import make
from tests.cases import cases
from tests.page.shown import answer, pictures, shop

AT = "/namespaces/default"


def bare(name: str) -> list[Json]:
    """Return a Deployment without a VPA, and its pod."""
    pod = make.pod_json(name=f"{name}-0", owner=f"Deployment/{name}", cpu="1", memory="1Gi")
    return [make.workload_json(f"Deployment/{name}"), make.running_json(pod)]


@pytest.fixture(scope="module")
def still() -> Pictures:
    """A workload under a VPA, and one without."""
    return pictures(*shop(), *bare("plain"))


@cases(
    "path told",
    {
        "the fleet": ("/", ">web</a>"),
        "the fleet of a namespace": ("/?namespace=default&sort=name", ">plain</a>"),
        "a VPA": (f"{AT}/vpas/web", "app"),
        "a workload without one": (f"{AT}/workloads/Deployment/plain", "no VPA"),
        "a pod": (f"{AT}/pods/web-0", "web-0"),
    },
)
def test_a_path_shows_its_page(still: Pictures, path: str, told: str) -> None:
    """A page is HTML that tells of what its path names, and that nothing else can embed."""
    found = answer(still, path)
    assert found.status_code == 200, found.text
    assert told in found.text
    assert "frame-ancestors 'none'" in found.headers["content-security-policy"]


@cases(
    "path member",
    {
        "the fleet": ("/fleet.json", "sums"),
        "a VPA": (f"{AT}/vpas/web.json", "numbers"),
        "a workload without one": (f"{AT}/workloads/Deployment/plain.json", "creation"),
        "a pod": (f"{AT}/pods/web-0.json", "turns"),
    },
)
def test_each_page_has_json_beside_it(still: Pictures, path: str, member: str) -> None:
    """The path with .json behind it gives the same view to programs."""
    assert member in answer(still, path).json()


def test_levels_are_words_in_json(still: Pictures) -> None:
    """A number would have to be looked up."""
    levels = {one["status"]["level"] for one in answer(still, "/fleet.json").json()["rows"]}
    assert levels <= {"blocked", "waiting", "updating", "fine", "idle"}
    assert levels


def test_a_name_may_end_as_json_does() -> None:
    """A VPA that is called so is shown, and its JSON has the ending twice."""
    named = make.vpa_json("web.json", target="StatefulSet/other")
    found = pictures(*shop(named))
    assert "web.json in mode" in answer(found, f"{AT}/vpas/web.json").text
    assert answer(found, f"{AT}/vpas/web.json.json").json()["name"] == "web.json"


@cases(
    "path status told",
    {
        "an unknown VPA": (f"{AT}/vpas/wep", 404, "did you mean &#34;web&#34;?"),
        "an unknown workload": (f"{AT}/workloads/Deployment/plan", 404, "Deployment/plain"),
        "an unknown pod": (f"{AT}/pods/web-7", 404, f"{AT}/pods/web-0"),
        "an unknown namespace": ("/namespaces/defualt/vpas/web", 404, "/?namespace=default"),
        "a filter by one": ("/?namespace=defualt", 404, "/?namespace=default"),
        "an unknown order": ("/?sort=size", 400, "sort is one of"),
        "an unknown state": ("/?only=stuck", 400, "only is one of"),
        "an unknown parameter": ("/?pagen=2", 400, "did you mean &#34;page&#34;?"),
        "a feed of nowhere": ("/feed?namespace=defualt", 404, "/?namespace=default"),
        "a parameter of the feed": ("/feed?namespac=a", 400, "did you mean &#34;namespace&#34;?"),
        "one of the installation": ("/installation?x=1", 400, "there is no parameter"),
        "no number of a page": ("/?page=-1", 400, "from 1 on"),
        "a page behind the last one": ("/?page=7", 404, "the last one is 1"),
        "no page at all": ("/nowhere", 404, "there is no page /nowhere"),
        "no file": ("/static/secret.txt", 404, "there is no file"),
    },
)
def test_what_is_not_there_is_said(still: Pictures, path: str, status: int, told: str) -> None:
    """The answer has its status, and the page says what there is instead."""
    found = answer(still, path)
    assert (found.status_code, told in found.text) == (status, True), found.text


def test_a_problem_comes_with_its_command() -> None:
    """What separates a VPA from an HPA is there to be copied."""
    found = pictures(*shop(make.hpa_json(make.metric_json("cpu", 80))))
    text = answer(found, f"{AT}/vpas/web").text
    assert "this separates the two" in text
    assert '<pre id="problem-1">kubectl -n default patch hpa web --type=json' in text


def test_a_problem_is_json_where_json_was_asked_for(still: Pictures) -> None:
    """Programs are told the same as people."""
    found = answer(still, f"{AT}/vpas/wep.json")
    assert found.status_code == 404
    assert found.json()["instead"] == [{"text": "web", "path": f"{AT}/vpas/web"}]


@cases(
    "name",
    {
        "a tag": ("<script>alert(1)</script>",),
        "a right-to-left mark": ("\u202eabc",),
        "a long one": ("x" * 253,),
    },
)
def test_names_are_text(name: str) -> None:
    """What objects are called is shown as text, whatever it is."""
    pod = make.pod_json(name=name, owner="StatefulSet/web", cpu="100m", memory="100Mi")
    found = pictures(*shop(make.running_json(pod), count=1))
    page = answer(found, f"{AT}/vpas/web").text
    assert "<script>alert" not in page
    shown = name.replace("<", "&lt;").replace(">", "&gt;").replace("\u202e", "\\u202e")
    assert shown in page
    assert "\u202e" not in page  # which would turn round what stands beside it


def test_before_the_first_picture_there_is_none() -> None:
    """A page that is asked for too early says so."""
    found = pictures(*shop())
    found.latest = None
    assert answer(found).status_code == 503


def test_more_rows_than_a_page_has_are_paged() -> None:
    """The second page goes on where the first one ends."""
    several = [item for number in range(60) for item in bare(f"plain-{number:02}")]
    found = pictures(*shop(), *several)
    first, second = (answer(found, f"/fleet.json?sort=name&page={page}").json() for page in (1, 2))
    assert (len(first["rows"]), len(second["rows"]), first["pages"]) == (50, 11, 2)
    assert 'rel="next"' in answer(found).text


def test_amounts_are_short() -> None:
    """Three digits are enough for people, and what is no amount is shown as it is."""
    assert [whole(None, "cpu"), whole(1500, "cpu"), whole(2**30, "memory")] == [
        NOTHING,
        "1.5",
        "1Gi",
    ]
    assert [exact("", "cpu"), exact("1500m", "cpu"), exact("many", "cpu")] == [
        NOTHING,
        "1.5",
        "many",
    ]


def test_a_pod_that_is_gone_is_told_of_by_its_events() -> None:
    """The updater's events outlive the pod."""
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web-9", "uid": "u"},
        "reason": "EvictedByVPA",
        "message": "Pod was evicted",
        "source": {"component": "vpa-updater"},
        "lastTimestamp": make.time(timedelta(minutes=5)),
    }
    assert "does not exist any more" in answer(pictures(*shop(event)), f"{AT}/pods/web-9").text


@cases(
    "path told",
    {
        "what happened": ("/feed", "What waits now"),
        "the installation": ("/installation", "plumbline doctor"),
        "the documentation": ("/docs/updating", 'id="ProofPending"'),
        "documentation that is not there": ("/docs/updatin", "did you mean &#34;updating&#34;?"),
    },
)
def test_other_pages_are_beside_the_fleet(still: Pictures, path: str, told: str) -> None:
    """Feed, installation and documentation have pages of their own."""
    assert told in answer(still, path).text


def test_an_installation_is_checked_now_and_then() -> None:
    """Of files only the VPAs are checked, and what is serious stands above every page."""
    found = pictures(*shop(make.vpa_json("wrong", mode="Sometimes")))
    assert found.check(make.NOW) > 60
    found.tick(make.NOW)
    told = answer(found, "/installation.json").json()
    assert [check["check"] for check in told["checks"]] == ["VPAs"]
    assert "vpa/wrong" in answer(found).text


def test_a_vpa_with_a_mistake_waits_for_a_person() -> None:
    """It is counted and found among what is blocked, and its row says what is wrong."""
    found = pictures(*shop(make.vpa_json("wrong", mode="Sometimes", target="Deployment/gone")))
    before = found.latest
    found.check(make.NOW)
    found.tick(make.NOW)
    told = answer(found, "/fleet.json?only=blocked").json()
    row = next(one for one in told["rows"] if one["vpa"] == "wrong")

    assert (row["badges"], row["status"]["text"]) == (["mistake"], "mistake in the VPA")
    assert "Sometimes" in row["status"]["why"] or "gone" in row["status"]["why"]
    assert told["sums"]["blocked"] >= 1
    assert before is not None
    assert not any("mistake" in row.badges for row in before.fleet["default"].rows)


HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


@cases(
    "path",
    {
        "the fleet": ("/",),
        "JSON": ("/fleet.json",),
        "a workload": ("/namespaces/default/vpas/web",),
        "what is not there": ("/nowhere",),
        "the script": ("/static/page.js",),
        "the documentation": ("/docs/page",),
    },
)
def test_browsers_are_told_to_be_strict(path: str) -> None:
    """What one viewer sees stays in no cache, and nothing of another origin is let in or asked."""
    found = answer(pictures(*shop()), path).headers
    assert {name: found[name] for name in HEADERS} == HEADERS


def test_the_script_is_short() -> None:
    """All works without it, so there is little to read."""
    script = files("app.page").joinpath("static", "page.js").read_text("utf-8")
    assert len(script.splitlines()) <= 150


def test_an_empty_fleet_says_what_to_do() -> None:
    """Without any workload the page names the command that makes VPAs."""
    assert "plumbline init" in answer(pictures()).text
