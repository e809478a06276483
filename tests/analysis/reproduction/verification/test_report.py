"""The report: which claims it shows where, and how its pages are written."""

import math
import re
import tomllib
from functools import partial
from importlib.resources import files

import pytest
import xarray as xr
from analysis.reproduction.rule import Above, Agrees, Verdict
from analysis.reproduction.verification import criteria

from analysis.reproduction.claim import Claim, Kind, Measurement
from analysis.reproduction.estimates import (
    Estimate,
    reported_count,
    reported_number,
)
from analysis.reproduction.experiment import (
    Experiment,
    RequiredRuns,
    Size,
    Sizing,
)
from analysis.reproduction.figures.register import PAPER_FIGURES
from analysis.reproduction.papers import PAPERS
from analysis.reproduction.registry import CLAIMS
from analysis.reproduction.report import contents, illustrations, report, strips
from analysis.reproduction.report.contents import ReportProvenance
from analysis.reproduction.results import OPEN_REASONS, judge_claim
from analysis.statistics.intervals import NO_INTERVAL, Interval
from dynamics import ParticleSettings, RecordingError, run_path, simulate

PROVENANCE = ReportProvenance(
    Size.QUICK,
    "2026-11-21T14:05:59+00:00",
    {"Python": "3.11.9", "commit": "5be88b0"},
    {"CA.0": 5025.0},
    12345,
    {},
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
        patch.setitem(contents.TEXTS, "main_claims", MAIN_CLAIMS)
        yield


REDUCED = Sizing(1, "32 runs instead of 100", {"runs": 4, "wd": [0.0, 1.0]})


def experiment(name, **more):
    usual = {
        "quick": Sizing(1, "", {"runs": 3}),
        "default": REDUCED._replace(reduced=""),
        "ensembles": lambda params: [],
    }
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
EXPERIMENTS = {name: experiment(name) for name in NAMES} | {
    "CA.0": experiment("CA.0", default=REDUCED, command="python -m analysis.x"),
    "long": experiment("long", quick=None),
}


class Pages:
    """The texts of the pages of a report: of its summary, of the papers, and of all."""

    def __init__(self, results, path, experiments=None, pictures=False, origin=None):
        experiments = EXPERIMENTS if experiments is None else experiments
        origin = origin or PROVENANCE
        paths = report.write_report(results, origin, experiments, path, pictures)
        self.folder = path.parent
        self.texts = {path.name: path.read_text() for path in paths}
        self.summary, *self.papers = self.texts.values()
        self.all = "".join(self.texts.values())

    def section(self, start, end):
        """The text from one heading of the summary up to another."""
        return self.summary[self.summary.index(start) : self.summary.index(end)]

    def entry(self, name):
        """The entry of a claim."""
        return self.all.split(f'<a id="{name}"></a>')[1].split("<a id=")[0]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The report of all results."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return Pages(all_results(), folder / "report.md", pictures=True)


# ------------------------------------------------------------------------------ results


def test_a_claim_is_judged_by_all_its_parts():
    result = judged(
        "CA.s4.x",
        part(Above(1), 5),
        part(Above(9), 5),
        part(criteria.Every(), Estimate(NO_INTERVAL, 0)),
    )
    verdicts = [Verdict.REPRODUCED, Verdict.NOT, Verdict.UNTESTABLE]
    assert [part.verdict for part in result.parts] == verdicts
    assert (result.verdict, result.parts[0].estimate.value) == (Verdict.PARTLY, 5)


def test_claims_without_evidence_are_not_measured():
    def measure(evidence):
        raise AssertionError("measured")

    part = Measurement(measure, Above(1))
    untestable = judged("CA.s8.x", part, untestable="no means")
    skipped = judge_claim(claim("CA.s8.y", part), None, Size.QUICK)
    assert untestable.verdict is Verdict.UNTESTABLE
    assert skipped.verdict is Verdict.SKIPPED
    assert untestable.parts == skipped.parts == ()


def test_remarks_and_a_note_common_to_all_parts():
    yes, no, other = (
        part(Above(4), value, note=note)
        for value, note in ((9, "two runs"), (1, "two runs"), (9, ""))
    )
    example = judged("CA.s4.x", yes, departure="fitted", kind=Kind.EXAMPLE)
    assert example.remarks == "example; fitted"
    assert judged("CA.s4.x", yes).remarks == ""
    assert judged("CA.s4.x", yes, no).note == "two runs"
    assert judged("CA.s4.x", yes, other).note == judged("CA.s4.x", other).note == ""


# --------------------------------------------------------------- contents of the report


def test_the_main_claims_show_the_worst_claims_of_a_row_and_our_own():
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
    (row,) = contents.main_rows(results)
    names = [result.claim.name for result in row.results]
    assert names == ["CA.table2.k0", "CA.table2.k1", "CA.table2.k2"]
    assert [(line.claim.name, line.label) for line in row.lines] == [
        ("CA.table2.k1", "no"),
        ("CA.table2.k0", ""),
        ("OWN.audit.k0", "no"),
    ]
    assert contents.paper_conclusions(results) == {
        "CA": {Verdict.PARTLY: ["it holds"], Verdict.REPRODUCED: ["it is *large*"]}
    }


def test_main_claims_exist_and_are_ten():
    text = files(contents.__package__).joinpath("texts.toml").read_text("utf-8")
    rows = tomllib.loads(text)["main_claims"]
    assert len(rows) == 10
    names = [name for row in rows for names in row.values() for name in names.split()]
    assert set(names) <= {item.name for item in CLAIMS}


def test_a_strip_has_the_number_the_range_and_the_ends():
    (result,) = judged("CA.s8.x", part(criteria.Within(0, 10), 5, 3)).parts
    strip = strips.number_strip(result)
    positions = (*strip.ours, strip.low, strip.high)
    assert [round(position) for position in positions] == [50, 25, 75, 8, 92]
    assert strip.ends == ("-1", "11")


def test_our_own_claims_are_confirmed_or_refuted(tmp_path):
    results = [judged(f"OWN.x{value}", part(Above(1), value)) for value in (5, 6, -5)]
    pages = Pages(results, tmp_path / "r.md")
    assert "[Our own claims](r-own.md): 2 confirmed, 1 refuted." in pages.summary
    assert "**OWN.x-5** ✕ refuted." in pages.entry("OWN.x-5")


def test_panels_of_a_figure_count_once(tmp_path):
    panels = [
        judged(f"VC.figure9.p{value}", part(Above(1), value), panels="VC.figure9")
        for value in (5, 6, -5)
    ]
    alone = judged("VC.figure8.x", part(Above(1), 5))
    text = Pages([*panels, alone], tmp_path / "r.md").summary
    counts = "2 empirical claims of the papers were tested: 1 reproduced, 1 partly."
    assert counts in text


def test_headline_counts_only_tested_empirical_claims_of_the_papers(tmp_path):
    kinds = [judged(f"CA.{kind.name}", part(Above(1), 5), kind=kind) for kind in Kind]
    others = (
        judged("OWN.x", part(Above(1), 5)),
        judged("CA.open", untestable="no means"),
    )
    text = Pages([*kinds, *others], tmp_path / "r.md").summary
    assert "1 empirical claim of the papers was tested: 1 reproduced." in text
    kinds = (
        "1 ambiguous, 1 of tables that the authors published, 1 by construction, 1"
        " examples, 1 fitted to the paper's numbers, 1 repeated"
    )
    assert f"Not counted: {kinds}. Not testable: 1." in text


@pytest.mark.parametrize(
    ("criterion", "value", "half", "expected"),
    [
        (Above(50), 52, 4, "about 400 runs in all: reproduced"),
        (criteria.Below(50), 47, 9, "about 900 runs in all: reproduced"),
        (Above(50, 10), 52, 9, "about 2,100 runs in all: partly"),
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
    def to_decide(count):
        (result,) = judged("CA.x", part(criterion, value, half, count=count)).parts
        assert result.verdict is Verdict.UNDECIDED
        return result.to_decide

    assert to_decide(100) == expected
    # a reason of the verdict says it already
    assert to_decide(4) == ("4 runs are too few" if expected else "")


def test_undecided_claims_are_grouped_by_reason(tmp_path):
    results = [
        judged("CA.few", part(Above(50), 52, 4, count=4), importance=2),
        judged("CA.ours", part(Above(50, ours=True), 40, 4), importance=2),
        judged("CA.more", part(Above(50), 52, 4), importance=2),
    ]
    section = Pages(results, tmp_path / "r.md").section("### Undecided", "## Words")
    reasons = re.findall(r"\*\*([A-Z].*)\*\*\n\n- \[(.*?)\]", section)
    assert sorted(reasons) == sorted(
        zip(OPEN_REASONS, ("CA.more", "CA.few", "CA.ours"), strict=True)
    )
    threshold = "outside our threshold (the paper states no number)"
    assert f"interval above 50: {threshold}" in section


def test_disagreements_show_failed_parts_and_consequence(written):
    section = written.section("### Not reproduced", "### Partly reproduced")
    places = [
        section.index(words)
        for words in (
            "#VC.s4.wrong)",
            "In the table of main claims: ",
            "#VC.s4.special)",
            "Details: ",
            "#VC.figure9.k1)",
        )
    ]
    assert places == sorted(places)
    assert "Consequence: " in section
    section = written.section("### Partly reproduced", "### Undecided")
    assert "#CA.s4.parts) ◐ partly. Claim CA.s4.parts holds." in section
    number = "✕ part 1: **48.0 [46.8, 49.2]** (n = 100 runs)"
    assert f"{number}; paper: 35.5 ± 3.7, margin 5: not due to" in section


def test_every_claim_has_one_entry(written):
    for result in all_results():
        assert written.all.count(f'<a id="{result.claim.name}"></a>') == 1
        assert result.word in written.entry(result.claim.name).split("\n")[0]
    assert f"{'It is so. ' * 79}It is so." in written.all
    assert "…" not in written.all


def test_links_have_targets(written):
    assert set(written.texts) == {
        "report.md",
        *(f"report-{paper.lower()}.md" for paper in PAPERS),
    }
    for text in written.texts.values():
        links = re.findall(r"\]\(([\w.-]+\.md)#?([^)]*)\)", text)
        assert len(links) > 1
        for page, anchor in links:
            assert not anchor or f'<a id="{anchor}"></a>' in written.texts[page]
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", written.all)
    assert len(pictures) == 2
    assert all((written.folder / name).stat().st_size > 100 for name in pictures)


def test_numbers_have_intervals_digits_and_units(written):
    number = "**60.7% [57.7, 63.7]** (n = 100 simulations)"
    assert f"{number}; paper: 56.0% (56 of 100), margin 10 points" in written.summary
    for words in (
        "**60.7% [57.7, 63.7]** (100 simulations)",
        "**420.0 epochs [160.0, 680.0]**",
        "**6.0 clusters**",
        "interval above 50%, estimate at least 55%",
        "interval below 3",
        "interval from -1 to 1 epochs",
        "no exception expected",
        "35.5 ± 3.7",
        "no value",
    ):
        assert words in "".join(written.papers)
    assert "nan" not in re.sub(r"[a-z]nan|nan[a-z]", "", written.all.lower())
    assert not re.search(r"-0(\.0+)?(?![.\d])", written.all)


def test_entry_has_parts_readings_and_remarks(written):
    entry = written.entry("CA.s4.parts")
    assert "- ● part 0: **60.7%" in entry
    number = "✕ part 1: **48.0 [46.8, 49.2]** (100 runs)"
    reason = "margin 5: not due to chance, and larger than the margin"
    assert f"- {number}; paper: 35.5 ± 3.7, {reason}" in entry
    assert "- Measured: as for [CA.table2.k0](report-ca.md#CA.table2.k0).\n" in entry
    assert "- Readings: this way (tested); that way.\n" in entry
    assert "- Experiment: some; figure: ca5\n" in entry
    assert "outside our threshold (the paper states no number)" in written.all
    entry = written.entry("CA.figure5.same")
    assert "**CA.figure5.same** ● reproduced (a smaller network). Claim" in entry
    entry = written.entry("VC.s5.open")
    assert "– not testable. Claim VC.s5.open holds.\n" in entry
    assert "- Not testable: It is about larger models.\n" in entry
    assert "(by construction). Claim" in written.entry("VC.s2.built")
    assert "- **5.0** (100 runs); interval" in written.entry("VC.s2.built")


def test_texts_common_to_all_parts_are_given_once(tmp_path):
    parts = [
        part(Above(1), value, label=label)
        for value, label in ((5, "first"), (6, "second"))
    ]
    entry = Pages([judged("CA.s4.x", *parts)], tmp_path / "a.md").entry("CA.s4.x")
    assert "- ● first: **5.0 [4.0, 6.0]**\n" in entry
    assert "- for each: interval above 1; 100 runs\n" in entry


def test_experiments_have_size_reduction_and_time(tmp_path):
    default = PROVENANCE._replace(size=Size.DEFAULT, sizings={"CA.0": REDUCED})
    results = all_results(Size.DEFAULT)
    pages = Pages(results, tmp_path / "a.md", origin=default)
    row = "|CA.0|fraction of runs|runs 4, wd [0.0, 1.0]|32 runs instead of 100|1 h 24"
    assert f"{row} min|`analysis.x`|" in pages.summary
    assert "2026-11-21, 14:05 UTC. Measurements took 1 h 24 min;" in pages.summary
    assert pages.summary.rstrip().endswith("Python 3.11.9, commit 5be88b0.")
    assert "![" not in pages.all
    assert {path.name for path in tmp_path.iterdir()} == set(pages.texts)


def test_differences_from_printed_numbers_are_counted(tmp_path):
    exact = judged("CA.a.exact", part(Agrees(reported_number("5 [5, 5]"), 1), 5, 0))
    close, far = (
        judged(f"CA.a.{value}", part(Agrees(reported_number("5 [4, 6]"), 1), value))
        for value in (5, 9)
    )
    text = Pages([exact, close, far], tmp_path / "a.md").summary
    assert "We compare 2 numbers with printed ones. At the 95% level about 0.1" in text
    assert "Here 1 differs, which is not unusual." in text


def test_the_summary_explains_criteria_and_has_every_place(written):
    judging = f"```text\n{criteria.__doc__.strip()}\n```\n"
    assert f"## How claims are judged\n\n{judging}" in written.summary
    section = written.section("## Coverage", "## Provenance")
    assert "table 2: 12;" in section
    assert "figure 5: 1;" in section
    assert "section 1: introduction" in section
    for paper in PAPERS.values():
        assert all(f"{place}: " in section for place in paper.places)


# ---------------------------------------------------------------------------- the files


def test_special_characters_are_shown_unchanged(written):
    escaped = (
        r"\| b \< c > d & e \&amp; \*bold\* \_x\_ f_a [1\](2) \$y\$ \`z\` \~\~no\~\~"
        r" \<script>"
    )
    entry = written.entry("VC.s4.special")
    assert entry.count(escaped) == entry.count("alert(1)") == 6
    rows = [
        line
        for line in written.summary.splitlines()
        if line.startswith("|") and "#VC" in line
    ]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}


def test_same_results_give_the_same_bytes(written, tmp_path):
    again = Pages(all_results(), tmp_path / "report.md", pictures=True)
    assert again.texts == written.texts


def test_failed_writing_leaves_existing_files(tmp_path):
    (tmp_path / "report-ca.md").mkdir()
    with pytest.raises(RecordingError, match=r"report-ca\.md"):
        Pages(all_results()[:1], tmp_path / "report.md")
    assert [path.name for path in tmp_path.iterdir()] == ["report-ca.md"]


def test_pages_and_pictures_of_an_earlier_report_are_replaced(tmp_path, monkeypatch):
    folder = tmp_path / "r-figures"
    folder.mkdir()
    before = {"ca5.png", "numbers.png", "strips-CA.old.svg", "mine.png"}
    for name in before:
        (folder / name).write_bytes(b"earlier")
    for name in ("r.md", "r-vc.md"):
        (tmp_path / name).write_text("earlier")
    results = [judged("CA.s8.x", part(Above(1), 5))]
    with monkeypatch.context() as patched:
        patched.setattr(report, "template", lambda *words: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Pages(results, tmp_path / "r.md", pictures=True)
    assert (tmp_path / "r.md").read_text() == "earlier"
    assert {path.name for path in folder.iterdir()} == before
    Pages(results, tmp_path / "r.md", pictures=True)
    names = {"strips-CA.s8.x.svg", "mine.png"}
    assert {path.name for path in folder.iterdir()} == names
    (folder / "mine.png").unlink()
    Pages(results, tmp_path / "r.md")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r-ca.md", "r.md"]


def test_report_without_tested_claims(tmp_path):
    results = [judged("CA.s8.x", untestable="it is an outlook")]
    text = Pages(results, tmp_path / "a.md", pictures=True).summary
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
        "s": experiment(
            "s", quick=Sizing(1, "", {"runs": 6}), ensembles=lambda params: [need]
        )
    }
    path = tmp_path / "out" / "r.md"
    text = Pages(results, path, experiments, pictures=True).all
    assert text.count("(r-figures/ca5.png)") == 1
    assert "\nCA figure 5: run " in text
    assert (path.parent / "r-figures" / "ca5.png").stat().st_size < 60_000
    assert len(list((tmp_path / "runs").glob("*.nc"))) == 1


def test_figures_without_runs_make_none(tmp_path):
    results = [
        judged(f"VC.{figure.name}", part(Above(1), 5), figure=figure.name)
        for figure in PAPER_FIGURES
    ]
    assert illustrations.draw_available_figures(results, Size.FULL, {}, tmp_path) == {}
    assert not (tmp_path / "runs").exists()
