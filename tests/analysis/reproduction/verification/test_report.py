"""The report: which claims it shows where, how it is written, and the HTML page in a
browser."""

import logging
import math
import re
from functools import partial
from itertools import pairwise

import pytest
import xarray as xr

from analysis.reproduction.figures.register import PAPER_FIGURES
from analysis.reproduction.registry import CLAIMS
from analysis.reproduction.report import illustrations, report, view
from analysis.reproduction.verification import criteria
from analysis.reproduction.verification.claim import Claim, Kind, Measurement
from analysis.reproduction.verification.coverage import PAPERS
from analysis.reproduction.verification.criteria import Above, Agrees, Verdict
from analysis.reproduction.verification.estimate import (
    Estimate,
    reported_count,
    reported_number,
)
from analysis.reproduction.verification.experiment import Experiment, Size, sized
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.results import (
    ReportProvenance,
    common_note,
    judge_claim,
    verdict_remarks,
)
from analysis.statistics.intervals import NO_INTERVAL, Interval
from dynamics import ParticleSettings, RecordingError, run_path, simulate

PROVENANCE = ReportProvenance(
    Size.QUICK,
    "2026-11-21T14:05:59+00:00",
    {"Python": "3.11.9", "commit": "5be88b0"},
    {"CA.0": 5025.0},
    12345,
)
SPECIAL = (
    "a | b < c > d & e &amp; *bold* _x_ f_a [1](2) $y$ `z` ~~no~~"
    " <script>alert(1)</script> \\ 1. # end"
)


def part(criterion, value, half=1.0, label="", unit="", count=100, digits=1, **more):
    estimate = (
        value
        if isinstance(value, Estimate)
        else Estimate(Interval(value, value - half, value + half), count)
    )
    estimate = estimate._replace(**more)
    return Measurement(
        partial(lambda estimate, evidence: estimate, estimate),
        criterion,
        label,
        unit,
        digits,
    )


def claim(name, *parts, experiment="some", **more):
    usual = {
        "statement": f"Claim {name} holds",
        "measured": "by counting",
        "meaning": "something else follows",
    }
    return Claim(name, parts=parts, experiment=experiment, **(usual | more))


def judged(name, *parts, size=Size.QUICK, **more):
    return judge_claim(claim(name, *parts, **more), xr.Dataset(), size)


def all_results(size=Size.QUICK):
    """Results with all kinds of criteria, estimates and verdicts, for all papers."""
    parts = [
        part(Agrees(reported_count(56), 10), 60.7, 3, unit="%", of="simulations"),
        part(Agrees(reported_number("35.5 ± 3.7"), 5), 48.0, 1.2),
        part(Agrees(reported_number("250", 1), 40), 420, 260, unit="epochs"),
        part(
            Agrees(reported_number("0.0"), 1),
            Estimate(Interval(-0.0004, -0.0009, 0.0001), 100),
        ),
        part(
            Agrees(reported_number("6", 1), 0.5),
            Estimate(Interval(6.0, math.nan, math.nan), 1),
            unit="clusters",
        ),
        part(Above(50, 5), 61, 9, unit="%", of="spikes"),
        part(Above(10, 5, ours=True), 3, 2, unit="%"),
        part(criteria.Below(3), 5, unit="epochs"),
        part(criteria.Within(-1, 1), 7, 2, unit="epochs"),
        part(criteria.Exists(), 40, 5, unit="%"),
        part(criteria.Every(), Estimate(Interval(97, 91, 99), 100), unit="%"),
        part(
            Above(50),
            Estimate(NO_INTERVAL, 0, note="no run learned anything"),
            unit="%",
        ),
    ]
    places = {
        "CA": "table2",
        "VC": "figure9",
        "CH": "remark3.1",
        "ZL": "runs",
        "NA": "phases",
        "OWN": "audit",
    }
    results = [
        judged(f"{paper}.{place}.k{k}", item, experiment=f"{paper}.{k % 4}", size=size)
        for paper, place in places.items()
        for k, item in enumerate(parts)
    ]
    several = [item._replace(label=f"part {k}") for k, item in enumerate(parts[:4])]
    results += [
        judged(
            "CA.s4.parts",
            *several,
            importance=3,
            readings=("this way", "that way"),
            figure="ca5",
            size=size,
        ),
        judged(
            "CA.figure5.same",
            parts[5],
            figure="ca5",
            places="figure 5",
            departure="a smaller network",
            size=size,
        ),
        judged(
            "VC.s4.special",
            part(Above(1), 0.1, 0.1, note=SPECIAL),
            statement=SPECIAL,
            measured=SPECIAL,
            size=size,
            meaning=SPECIAL,
            departure=SPECIAL,
            readings=(SPECIAL, SPECIAL),
            experiment="special",
            importance=2,
        ),
        judged("VC.s4.wrong", part(Above(1), 0.1, 0.1), importance=2, size=size),
        judged("VC.s5.open", untestable="it is about larger models", size=size),
        judged(
            "OWN.long",
            part(Above(1), 5),
            statement="It is so. " * 80,
            measured="So. " * 200,
            size=size,
        ),
        judged("VC.s2.built", part(Above(1), 5), kind=Kind.CONSTRUCTION, size=size),
        judge_claim(
            claim("VC.figure6.later", part(Above(1), 5), experiment="long"), None, size
        ),
    ]
    return results


MAIN_CLAIMS = [
    {
        "it holds": "CA.table2.k0 CA.table2.k1",
        "it is *large*": "CA.table2.k2 OWN.audit.k0",
    },
    {"the other holds": "VC.s4.special"},
    {"an example does": "CA.s8.x"},
]


@pytest.fixture(autouse=True, scope="module")
def main_claims():
    """Claims of these tests on the first page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view, "MAIN_CLAIMS", MAIN_CLAIMS)
        yield


def experiment(name, **more):
    usual = {"quick": sized(1, runs=3), "default": sized(1, runs=4, wd=[0.0, 1.0])}
    return Experiment(name, "fraction of runs", measure=None, **(usual | more))


NAMES = [
    "some",
    "special",
    *(
        f"{paper}.{k}"
        for paper in ("CA", "VC", "CH", "ZL", "NA", "OWN")
        for k in range(4)
    ),
]
REDUCED = sized(1, "32 runs instead of 100", runs=4, wd=[0.0, 1.0])
EXPERIMENTS = {name: experiment(name) for name in NAMES} | {
    "CA.0": experiment("CA.0", default=REDUCED, command="python -m analysis.x"),
    "long": experiment("long", quick=None),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Markdown, page and folder of the report of all results."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        text, page = report.write_report(
            all_results(), PROVENANCE, EXPERIMENTS, folder / "report.md"
        )
    return text.read_text(), page.read_text(), folder


def write(
    results, path, experiments=EXPERIMENTS, pictures=False, provenance=PROVENANCE
):
    return report.write_report(results, provenance, experiments, path, pictures)[
        0
    ].read_text()


# ------------------------------------------------------------------------------ results


def test_a_claim_is_judged_by_all_its_parts():
    result = judged(
        "CA.s4.x",
        part(Above(1), 5),
        part(Above(9), 5),
        part(criteria.Every(), Estimate(NO_INTERVAL, 0)),
    )
    assert [judgement.verdict for judgement in result.judgements] == [
        Verdict.REPRODUCED,
        Verdict.NOT,
        Verdict.UNTESTABLE,
    ]
    assert (result.verdict, result.estimates[0].interval.value) == (Verdict.PARTLY, 5)


def test_claims_without_evidence_are_not_measured():
    def measure(evidence):
        raise AssertionError("measured")

    assert (
        judged("CA.s8.x", Measurement(measure, Above(1)), untestable="no means").verdict
        is Verdict.UNTESTABLE
    )
    other = claim("CA.s8.y", Measurement(measure, Above(1)))
    assert judge_claim(other, None, Size.QUICK) == (
        other,
        (),
        (),
        Verdict.SKIPPED,
        Size.QUICK,
    )


def test_remarks_and_a_note_common_to_all_parts():
    yes, no, other = (
        part(Above(4), value, note=note)
        for value, note in ((9, "two runs"), (1, "two runs"), (9, ""))
    )
    assert (
        verdict_remarks(judged("CA.s4.x", yes, departure="fitted", kind=Kind.EXAMPLE))
        == "example; fitted"
    )
    assert verdict_remarks(judged("CA.s4.x", yes)) == ""
    assert common_note(judged("CA.s4.x", yes, no)) == "two runs"
    assert (
        common_note(judged("CA.s4.x", yes, other))
        == common_note(judged("CA.s4.x", other))
        == ""
    )


# --------------------------------------------------------------- contents of the report


def views(*results):
    return view._claim_views(results, {}, {})


def test_the_first_page_shows_the_worst_claims_of_a_row_and_our_own():
    no, yes = (
        part(Above(1), value, label=label) for value, label in ((-5, "no"), (5, "yes"))
    )
    results = [
        judged("CA.table2.k0", yes),
        judged("CA.table2.k1", yes, no),
        judged("CA.table2.k2", yes),
        judged("OWN.audit.k0", no, yes),
        judged("CA.s8.y", no),
    ]
    (row,) = view.main_rows(views(*results))
    assert [item.claim.name for item in row.claims] == [
        "CA.table2.k0",
        "CA.table2.k1",
        "CA.table2.k2",
    ]
    shown = [(line.claim.name, part.label) for line, part in row.lines]
    assert shown == [
        ("CA.table2.k1", "no"),
        ("CA.table2.k0", ""),
        ("OWN.audit.k0", "no"),
    ]
    assert view._conclusions(views(*results)) == {
        "CA": {Verdict.PARTLY: ["it holds"], Verdict.REPRODUCED: ["it is *large*"]}
    }


def test_main_claims_exist_and_are_ten():
    rows = view._TEXTS["main_claims"]
    assert len(rows) == 10
    assert {
        name for row in rows for names in row.values() for name in names.split()
    } <= {item.name for item in CLAIMS}


def test_our_own_claims_are_confirmed_or_refuted(tmp_path):
    text = write(
        [judged(f"OWN.x{value}", part(Above(1), value)) for value in (5, 6, -5)],
        tmp_path / "r.md",
    )
    assert "[Our own claims](#paper-OWN): 2 confirmed, 1 refuted." in text
    assert "**OWN.x-5** ✕ refuted." in text


def test_headline_counts_only_tested_empirical_claims_of_the_papers(tmp_path):
    kinds = [judged(f"CA.{kind.name}", part(Above(1), 5), kind=kind) for kind in Kind]
    others = (
        judged("OWN.x", part(Above(1), 5)),
        judged("CA.open", untestable="no means"),
    )
    text = write([*kinds, *others], tmp_path / "r.md")
    assert "1 empirical claim of the papers was tested: 1 reproduced." in text
    assert (
        "Not counted: 1 by construction, 1 examples, 1 repeated. Not testable: 1."
        in text
    )


@pytest.mark.parametrize(
    ("criterion", "value", "half", "expected"),
    [
        (Above(50), 52, 4, "about 400 runs in all: reproduced"),
        (criteria.Below(50), 47, 9, "about 900 runs in all: reproduced"),
        (Above(50, 10), 52, 9, "about 130 runs in all: not reproduced"),
        (Above(50, 10), 56, 9, "about 230 runs in all: partly"),
        (
            Above(50, 10, ours=True),
            49,
            12,
            "about 120 runs in all: outside our threshold",
        ),
        (
            Above(50),
            50.1,
            4,
            "the estimate is too close to the bound for more runs to decide",
        ),
        (
            Above(50),
            50,
            4,
            "the estimate is too close to the bound for more runs to decide",
        ),
        (criteria.Within(0, 10), 9, 4, ""),
    ],
)
def test_number_of_cases_that_would_decide(criterion, value, half, expected):
    one = part(criterion, value, half)
    estimate = one.measure(None)
    judgement = criteria.judge_estimate(criterion, estimate)
    assert judgement.verdict is Verdict.UNDECIDED
    assert view.cases_to_decide(one, estimate, judgement) == expected
    few = view.cases_to_decide(one, estimate._replace(count=4), judgement)
    assert few == "4 runs are too few"


def test_undecided_claims_are_grouped_by_reason(tmp_path):
    results = [
        judged("CA.few", part(Above(50), 52, 4, count=4), importance=2),
        judged("CA.ours", part(Above(50, ours=True), 40, 4), importance=2),
        judged("CA.more", part(Above(50), 52, 4), importance=2),
    ]
    text = write(results, tmp_path / "r.md")
    section = text[text.index("### Undecided") : text.index("# Appendix")]
    reasons = re.findall(r"\*\*([A-Z].*)\*\*\n\n- \[(.*?)\]", section)
    assert sorted(reasons) == sorted(
        zip(view.OPEN_REASONS, ("CA.more", "CA.few", "CA.ours"), strict=True)
    )
    assert (
        "interval above 50: outside our threshold (the paper states no number)"
        in section
    )


def test_disagreements_show_failed_parts_and_consequence(written):
    text, _, _ = written
    section = text[
        text.index("### Not reproduced") : text.index("### Partly reproduced")
    ]
    assert (
        section.index("(#VC.s4.wrong)")
        < section.index("On page one: ")
        < section.index("(#VC.s4.special)")
    )
    assert (
        section.index("(#VC.s4.special)")
        < section.index("Details: ")
        < section.index("(#VC.figure9.k1)")
    )
    assert "Consequence: " in section
    section = text[text.index("### Partly reproduced") : text.index("### Undecided")]
    assert "(#CA.s4.parts) ◐ partly. Claim CA.s4.parts holds." in section
    assert (
        "✕ part 1: **48.0 [46.8, 49.2]** (n = 100 runs); paper: 35.5 ± 3.7, margin 5:"
        " not due to" in section
    )


def test_every_claim_has_one_entry(written):
    text, page, _ = written
    for result in all_results():
        name = result.claim.name
        assert text.count(f'<a id="{name}"></a>') == page.count(f' id="{name}"') == 1
        if not result.claim.untestable:
            size = "" if result.verdict is Verdict.SKIPPED else " --quick"
            assert f"<code>python -m analysis.verify --only {name}{size}</code>" in page
    assert f"{'It is so. ' * 79}It is so." in text
    assert "…" not in text + page


def test_links_have_targets(written):
    text, page, folder = written
    anchors = re.findall(r'<a id="([^"]+)"></a>', text)
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= set(anchors)
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert len(pictures) == 2
    assert all((folder / name).stat().st_size > 100 for name in pictures)
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_numbers_have_intervals_digits_and_units(written):
    text, page, _ = written
    for words in (
        "**60.7% [57.7, 63.7]** (n = 100 simulations); paper: 56.0% (56 of 100), margin 10 points",
        "**420.0 epochs [160.0, 680.0]**",
        "**6.0 clusters**",
        "interval above 50%, estimate at least 55%",
        "interval below 3",
        "interval from -1 to 1 epochs",
        "no exception expected",
        "35.5 ± 3.7",
        "no value",
    ):
        assert words in text
        assert words.replace("*", "") in re.sub("<.*?>", "", page)
    assert "nan" not in re.sub(r"[a-z]nan|nan[a-z]", "", text.lower())
    assert not re.search(r"-0(\.0+)?(?![.\d])", text)


def test_entry_has_parts_readings_and_remarks(written):
    text, page, _ = written
    entry = text[
        text.index('<a id="CA.s4.parts">') : text.index('<a id="CA.figure5.same">')
    ]
    assert "- ● part 0: **60.7%" in entry
    assert (
        "- ✕ part 1: **48.0 [46.8, 49.2]** (100 runs); paper: 35.5 ± 3.7, margin 5:"
        " not due" in entry
    )
    assert "As for " in page
    assert "Readings: <strong>this way</strong> (tested); that way." in page
    assert "margin 5: not due to chance, and larger than the margin" in page
    assert "outside our threshold (the paper states no number)" in page
    assert "**CA.figure5.same** ● reproduced (a smaller network). Claim" in text
    assert (
        '**It is about larger models.**\n\n- <a id="VC.s5.open"></a>VC.s5.open: Claim'
        " VC.s5.open holds.\n" in text
    )
    assert (
        '|<a id="VC.s2.built"></a>VC.s2.built|Claim VC.s2.built holds.|**5.0** (100'
        " runs); interval" in text
    )


def test_texts_common_to_all_parts_are_given_once(tmp_path):
    parts = [
        part(Above(1), value, label=label)
        for value, label in ((5, "first"), (6, "second"))
    ]
    text = write([judged("CA.s4.x", *parts)], tmp_path / "a.md")
    assert "- ● first: **5.0 [4.0, 6.0]**\n" in text
    assert "- for each: interval above 1; 100 runs\n" in text


def test_experiments_have_size_reduction_and_time(tmp_path):
    text = write(
        all_results(Size.DEFAULT),
        tmp_path / "a.md",
        provenance=PROVENANCE._replace(size=Size.DEFAULT),
    )
    row = (
        "|CA.0|fraction of runs|runs 4, wd [0.0, 1.0]|32 runs instead of 100|1 h 24"
        " min|`analysis.x`|"
    )
    assert row in text
    assert "2026-11-21, 14:05 UTC. Measurements took 1 h 24 min;" in text
    assert text.rstrip().endswith("Python 3.11.9, commit 5be88b0.")
    assert "![" not in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.md"]


def test_differences_from_printed_numbers_are_counted(tmp_path):
    exact = judged("CA.a.exact", part(Agrees(reported_number("5 [5, 5]"), 1), 5, 0))
    close, far = (
        judged(f"CA.a.{value}", part(Agrees(reported_number("5 [4, 6]"), 1), value))
        for value in (5, 9)
    )
    text = write([exact, close, far], tmp_path / "a.md")
    assert (
        "We compare 2 numbers with printed ones. At the 95% level about 0.1 differ by"
        " chance" in text
    )
    assert "Here 1 differs, which is not unusual." in text


def test_the_appendix_explains_criteria_and_has_every_place(written):
    text, page, _ = written
    assert (
        f"## How claims are judged\n\n```text\n{criteria.__doc__.strip()}\n```\n"
        in text
    )
    section = page[page.index('id="coverage"') : page.index('id="provenance"')]
    assert "table 2: 12;" in section
    assert "figure 5: 1;" in section
    assert 'section 1: <span class="quiet">introduction' in section
    assert all(f"{place}: " in section for paper in PAPERS for place in paper.places)


# ---------------------------------------------------------------------------- the files


def test_special_characters_are_shown_unchanged(written):
    text, page, _ = written
    assert page.count("<script>") == 1  # the page's own
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    escaped = (
        r"\| b \< c > d & e \&amp; \*bold\* \_x\_ f_a [1\](2) \$y\$ \`z\` \~\~no\~\~"
        r" \<script>"
    )
    entry = text[text.index('<a id="VC.s4.special">') :]
    entry = entry[: entry.index("<a id", 1)]
    assert entry.count(escaped) == entry.count("alert(1)") == 4
    rows = [
        line
        for line in text.splitlines()
        if line.startswith("|") and "(#VC" in line and "#paper" not in line
    ]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}


def test_same_results_give_the_same_bytes(written, tmp_path):
    paths = report.write_report(
        all_results(), PROVENANCE, EXPERIMENTS, tmp_path / "report.md"
    )
    assert tuple(path.read_text() for path in paths) == written[:2]


def test_failed_writing_leaves_existing_files(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(RecordingError, match=r"report\.html"):
        write(all_results()[:1], tmp_path / "report.md")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_pictures_of_an_earlier_report_are_replaced(tmp_path, monkeypatch):
    folder = tmp_path / "r-figures"
    folder.mkdir()
    before = {"ca5.png", "numbers.png", "strips-CA.old.svg", "mine.png"}
    for name in before:
        (folder / name).write_bytes(b"earlier")
    (tmp_path / "r.md").write_text("earlier")
    results = [judged("CA.s8.x", part(Above(1), 5))]
    with monkeypatch.context() as patched:
        patched.setattr(report, "template", lambda *words: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write(results, tmp_path / "r.md", pictures=True)
    assert (tmp_path / "r.md").read_text() == "earlier"
    assert {path.name for path in folder.iterdir()} == before
    write(results, tmp_path / "r.md", pictures=True)
    assert {path.name for path in folder.iterdir()} == {
        "strips-CA.s8.x.svg",
        "mine.png",
    }
    (folder / "mine.png").unlink()
    write(results, tmp_path / "r.md")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.html", "r.md"]


def test_report_without_tested_claims(tmp_path):
    text = write(
        [judged("CA.s8.x", untestable="it is an outlook")],
        tmp_path / "a.md",
        pictures=True,
    )
    assert "No empirical claim was tested." in text
    assert text.count("\nNone.\n") == 3


# ----------------------------------------------------------------------------- pictures


def test_a_figure_is_drawn_once_from_existing_runs(tmp_path):
    need = RequiredRuns(ParticleSettings(fa=1.0), 6)
    simulate(
        need.settings,
        6,
        out=run_path(need.settings, 6, 0, every=need.settings.default_every),
    )
    results = [result for result in all_results() if result.claim.figure]
    experiments = {
        "s": experiment("s", quick=sized(1, runs=6), ensembles=lambda params: [need])
    }
    text = write(results, tmp_path / "out" / "r.md", experiments, pictures=True)
    assert text.count("(r-figures/ca5.png)") == 1
    assert "\nCA figure 5: run " in text
    assert (tmp_path / "out" / "r.html").read_text().count(
        "data:image/png;base64,"
    ) == 1
    assert (tmp_path / "out" / "r-figures" / "ca5.png").stat().st_size < 60_000
    assert len(list((tmp_path / "runs").glob("*.nc"))) == 1


def test_figures_without_runs_make_none(tmp_path):
    results = [
        judged(f"VC.{figure.name}", part(Above(1), 5), figure=figure.name)
        for figure in PAPER_FIGURES
    ]
    assert illustrations.draw_available_figures(results, Size.FULL, {}, tmp_path) == {}
    assert not (tmp_path / "runs").exists()


def test_font_warnings_are_silent_while_drawing(caplog):
    logger = logging.getLogger("matplotlib.font_manager")
    with illustrations._without_font_warnings():
        logger.warning("findfont: Font family 'x' not found.")
    assert not caplog.records
    logger.warning("findfont: Font family 'x' not found.")
    assert caplog.records


# ----------------------------------------------------------------------------- the page


@pytest.fixture
def address(written, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(written[1])
    return path.as_uri()


def test_page_fits_a_narrow_screen_and_filters(address, chromium_page):
    page = chromium_page
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(address)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert {item.split(":")[0] for item in page.asked} <= {"file", "data"}
    results = [result for result in all_results() if not result.claim.untestable]
    assert page.locator("article:visible").count() == len(results)
    for verdict in {result.verdict for result in results} - {Verdict.NOT}:
        page.uncheck(f'input[value="{verdict}"]')
    page.uncheck('input[value="OWN"]')
    kept = [
        result
        for result in results
        if result.verdict is Verdict.NOT and result.claim.paper != "OWN"
    ]
    assert page.locator("article:visible").count() == len(kept)
    assert (
        page.locator("output").inner_text()
        == f"{len(kept)} of {len(results)} claims shown"
    )
    page.evaluate("location.hash = 'OWN.audit.k0'")  # a link to a hidden claim shows it
    page.wait_for_function("document.querySelectorAll('article[hidden]').length === 0")
    levels = page.eval_on_selector_all(
        "h1, h2, h3, h4", "all => all.map(one => +one.tagName[1])"
    )
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_page_is_complete_without_its_script(address, chromium):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.locator("article:visible").count() == sum(
        not result.claim.untestable for result in all_results()
    )
    assert not page.locator("form").is_visible()
    context.close()
