"""The report of judged claims: what it says, how it is written, what it leaves out."""

import logging
import math
import re
from functools import partial
from itertools import pairwise

import pytest
import xarray as xr

from analysis.reproduction.figures import circuits
from analysis.reproduction.report import methods, report
from analysis.reproduction.report.disagreements import distance_beyond_margin, main_disagreements
from analysis.reproduction.report.report import ReportProvenance, write_report
from analysis.reproduction.verification import criteria as rules
from analysis.reproduction.verification.claim import Claim, Measurement
from analysis.reproduction.verification.coverage import (
    PAPERS,
    UNTESTED_PLACES,
    claims_covering,
    directly_covering,
    place_in_paper,
    uncovered_places,
    unlisted_places,
)
from analysis.reproduction.verification.criteria import Above, Agrees, Below, Every, Verdict, Within, judge_estimate
from analysis.reproduction.verification.estimate import Estimate, reported_count, reported_number
from analysis.reproduction.verification.experiment import Experiment, Size
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.results import ClaimResult, judge_claim
from analysis.statistics.intervals import NO_INTERVAL, Interval
from dynamics.run_checks import run_path
from dynamics.settings import ParticleSettings, SparseSettings
from dynamics.simulation import simulate

EVIDENCE = xr.Dataset()
ABOUT = ReportProvenance(
    Size.QUICK, "2026-11-21", {"Python": "3.11.9", "device": "cpu, 2 cores", "commit": "5be88b0"}, 5025.0, 12345
)
NASTY = "a | b < c > d & e &amp; *bold* _x_ f_a [1](2) $y$ `z` ~~no~~ <script>alert(1)</script> \\ 1. # end"


def of(finding, evidence):
    return finding


def part(rule, finding, label="", unit="", digits=1):
    return Measurement(partial(of, finding), rule, label, unit, digits)


def found(value, half=1.0, count=100, **words):
    return Estimate(Interval(value, value - half, value + half), count, **words)


def claim(name, *parts, **words):
    usual = {
        "source": name,
        "statement": f"Something is so, says {name}.",
        "measured": "by counting",
        "refuted": "more than chance",
        "study": "some.study",
        "meaning": "something else follows",
    }
    return Claim(name, parts=parts, **(usual | words))


def many():
    """Sixty claims of all kinds."""
    agrees = [
        (Agrees(reported_count(56), 10), found(60.7, 3, of="simulations"), "%"),
        (Agrees(reported_number("35.5 ± 3.7"), 5), found(48.0, 1.2), ""),
        (Agrees(reported_number("-0.64 [-0.75, -0.49]"), 0.1), Estimate(Interval(-0.67, -0.78, -0.54), 82), ""),
        (Agrees(reported_number("250", 1), 40), found(420, 260, effect=0.35, effect_name="Cohen's d"), "epochs"),
        (Agrees(reported_number("0.0"), 1), Estimate(Interval(-0.0004, -0.0009, 0.0001), 100), ""),
        (Agrees(reported_number("6", 1), 0.5), Estimate(Interval(6.0, math.nan, math.nan), 1), "clusters"),
        (Agrees(reported_count(18), 2), found(90, 1), "%"),
    ]
    bounds = [
        (Above(50), found(61, 9, of="spikes"), "%"),
        (Above(10, 5), found(3, 2), "%"),
        (Above(0), Estimate(Interval(0.3, -0.1, 0.7), 40, effect=0.3, effect_name="Cohen's h"), ""),
        (Below(3), found(5, 1), "epochs"),
        (Within(0, 10), found(4, 2), "%"),
        (Within(-1, 1), found(7, 2), "epochs"),
        (Every(), Estimate(Interval(100, 96.4, 100), 100), "%"),
        (Every(), Estimate(Interval(97, 91, 99), 100), "%"),
        (Every(), Estimate(NO_INTERVAL, 0, note="no run learned anything"), "%"),
        (Above(50), Estimate(NO_INTERVAL, 0), "%"),
    ]
    places = {"CA": "table2", "VC": "figure9", "CH": "remark3.1", "OWN": "audit"}
    made = []
    for paper, place in places.items():
        for k, (rule, finding, unit) in enumerate(agrees + bounds[: 3 if paper == "CH" else None]):
            made.append(claim(f"{paper}.{place}.k{k}", part(rule, finding, unit=unit), study=f"{paper}.{k % 4}"))
    several = tuple(part(rule, finding, f"part {k}", unit) for k, (rule, finding, unit) in enumerate(agrees[:4]))
    made += [
        claim("CA.s4.parts", *several, weight=3, readings=("this way", "that way"), figure="ca5"),
        claim("CA.figure5.same", part(*bounds[0][:2]), figure="ca5", covers=("figure 5",)),
        claim("VC.s4.nasty", part(Above(1), found(0.1, 0.1, note=NASTY)), statement=NASTY, measured=NASTY,
              meaning=NASTY, refuted=NASTY, source=NASTY, readings=(NASTY, NASTY)),
        claim("VC.s5.open", untestable="it is about larger models"),
        claim("OWN.long", part(Above(1), found(5)), statement="So it is. " * 80, measured="So. " * 200),
    ]  # fmt: skip
    return made


def all_judged(size=Size.QUICK):
    every = [judge_claim(one, EVIDENCE, size) for one in many()]
    return [*every, judge_claim(claim("VC.figure6.later", part(Above(1), found(5)), study="dear"), None, size)]


def nothing(runner, params):
    raise AssertionError("nothing is measured for a report")


def study(name, **words):
    usual = {"sizes": {Size.QUICK: {"runs": 3}, Size.DEFAULT: {"runs": 4, "wd": [0.0, 1.0]}}, "seconds": {}}
    return Experiment(name, "what is measured", measure=nothing, **(usual | words))


STUDIES = {
    name: study(name, reduced=dict.fromkeys(Size, "32 runs in place of 100") if name == "CA.0" else {})
    for name in ("some.study", *(f"{paper}.{k}" for paper in ("CA", "VC", "CH", "OWN") for k in range(4)))
} | {"dear": study("dear", sizes={Size.DEFAULT: {"runs": 100}, Size.FULL: {"runs": 100}}, command="python -m x.y")}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The report of all claims, with its own pictures: Markdown, page, and where they lie."""
    out = tmp_path_factory.mktemp("report") / "report.md"
    first, second = write_report(all_judged(), ABOUT, STUDIES, out, pictures=True)
    return first.read_text(), second.read_text(), first.parent


# ------------------------------------------------------------------------------------------------ judged


def test_a_claim_in_parts_is_judged_by_all_of_them():
    one = claim(
        "CA.s4.parts", part(Above(1), found(5)), part(Above(9), found(5)), part(Every(), Estimate(NO_INTERVAL, 0))
    )
    result = judge_claim(one, EVIDENCE, Size.FULL)
    assert [each.verdict for each in result.judgements] == [Verdict.REPRODUCED, Verdict.NOT, Verdict.UNTESTABLE]
    assert result.verdict is Verdict.PARTLY
    assert result.estimates[0].interval.value == 5
    assert result.size is Size.FULL


def test_what_cannot_be_tested_is_not_measured():
    def measure(evidence):
        raise AssertionError("measured")

    one = claim("CA.s8.open", Measurement(measure, Above(1)), untestable="no means")
    assert judge_claim(one, EVIDENCE, Size.QUICK).verdict is Verdict.UNTESTABLE
    other = claim("CA.s8.dear", Measurement(measure, Above(1)))
    assert judge_claim(other, None, Size.QUICK) == (other, (), (), Verdict.SKIPPED, Size.QUICK)


# ----------------------------------------------------------------------------------------- disagreements


def beyond_of(rule, finding):
    return distance_beyond_margin(part(rule, finding), finding, judge_estimate(rule, finding))


@pytest.mark.parametrize(
    ("rule", "finding", "expected"),
    [
        (Above(50), found(40, 5), 2.0),
        (Above(50), found(60, 5), -2.0),
        (Below(50), found(60, 5), 2.0),
        (Within(0, 10), found(13, 1), 3.0),
        (Within(0, 10), found(-4, 2), 2.0),
        (Every(), Estimate(Interval(90, 85, 95), 100), 2.0),
        (Agrees(reported_number("10 [7, 13]"), 5), found(25, 4), 2.0),  # the difference is 15 ± 5
        (Above(50), Estimate(Interval(40, math.nan, math.nan), 1), -math.inf),
        (Above(50), found(40, 0), -math.inf),  # worked out without chance: no unit to count in
    ],
)
def test_how_far_beyond_its_bound_a_finding_is(rule, finding, expected):
    assert beyond_of(rule, finding) == pytest.approx(expected)


def test_disagreements_are_picked_by_verdict_weight_distance_and_study():
    def one(name, value, weight, study, bound=10):
        return judge_claim(
            claim(name, part(Above(bound), found(value)), weight=weight, study=study), EVIDENCE, Size.QUICK
        )

    every = [
        one("CA.a.open", 10.5, 3, "open"),  # holds the bound, so undecided
        one("CA.a.near", 5, 2, "a"),
        one("VC.a.far", 1, 2, "b"),
        one("VC.a.further", -5, 2, "c"),
        one("VC.a.same-study", -9, 1, "c"),
        one("VC.a.light", -50, 1, "d"),
        one("OWN.a", -90, 3, "e"),  # not a paper's
        one("CA.a.fine", 90, 3, "f"),
    ]
    assert [each.claim.name for each in main_disagreements(every)] == ["VC.a.further", "VC.a.far", "CA.a.near"]
    some = [each for each in every if each.claim.name in ("CA.a.open", "VC.a.light", "OWN.a")]
    assert [each.claim.name for each in main_disagreements(some)] == ["VC.a.light"]
    assert main_disagreements([every[-1]]) == []


def test_exact_disagreements_come_last_among_equals_and_a_number_is_told_once():
    def one(name, study, *finding):
        return judge_claim(claim(name, part(Above(50), found(*finding)), study=study), EVIDENCE, Size.QUICK)

    exact, near, same = one("CA.a.exact", "a", 1, 0), one("CA.a.near", "b", 47), one("VC.a.same", "c", 47)
    assert [each.claim.name for each in main_disagreements([exact, near, same])] == ["CA.a.near", "CA.a.exact"]
    also = one("VC.a.also-exact", "d", 1, 0)
    assert main_disagreements([exact, also]) == [exact, also]


# ------------------------------------------------------------------------------------------------ the index


def test_places_are_covered_by_their_parts_and_only_by_claims_of_the_paper():
    claims = [
        claim("CA.s5.1.one", covers=("section 5.1",)),
        claim("CA.table1.x", covers=("Table 1", "limitations", "figure 99")),
        claim("VC.s4.x", covers=("section 4.2", "figure 1", "conclusion")),
    ]

    def names(*where):
        return [each.name for each in claims_covering(claims, *where)]

    assert names("CA", "section 5") == names("CA", "section 5.1") == ["CA.s5.1.one"]
    assert names("CA", "section 5.2") == []
    assert names("CA", "table 1") == ["CA.table1.x"]
    assert names("VC", "figure 1") == names("VC", "section 5") == ["VC.s4.x"]
    assert names("CA", "figure 1") == names("VC", "figure 10") == []
    assert unlisted_places(claims, "CA") == {"figure 99": [claims[1]]}
    assert directly_covering(claims, PAPERS[0], "section 5") == []  # its part is listed itself
    assert directly_covering(claims, PAPERS[0], "section 5.1") == [claims[0]]
    missing = uncovered_places(claims)
    assert "CA section 5.2" in missing
    assert "VC figure 2" in missing
    assert not {"CA section 5", "CA table 1", "VC section 4", "CA section 1", "CH remark 3.1"} & set(missing)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("CA.s5.1.apart", ("section 5.1", "apart")),
        ("CA.s4.grids", ("section 4", "grids")),
        ("CA.table1.wd0.6", ("table 1", "wd0.6")),
        ("VC.appA.1.drops", ("appendix A.1", "drops")),
        ("CA.appB.biases", ("appendix B", "biases")),
        ("CH.remark3.1.faithful", ("remark 3.1", "faithful")),
        ("CH.abstract.spikes", ("abstract", "spikes")),
        ("OWN.audit", ("audit", "")),
    ],
)
def test_the_place_in_a_name(name, place):
    assert place_in_paper(name) == place


def test_what_states_nothing_is_a_place():
    places = {(paper.short, place) for paper in PAPERS for place in paper.places}
    assert set(UNTESTED_PLACES) <= places
    every = [claim(f"{paper}.x", covers=(place,)) for paper, place in places]
    assert uncovered_places(every) == []
    assert len(uncovered_places([])) == len(places) - len(UNTESTED_PLACES)


# ------------------------------------------------------------------------------------------- what it says


def test_every_claim_has_a_row_and_an_entry_in_both(written):
    text, page, _ = written
    plain = re.sub(r"</?span>", "", page)
    for one in all_judged():
        name, verdict = one.claim.name, one.verdict.value
        assert len(re.findall(rf"^\|\[{re.escape(name)}\]\(#{re.escape(name)}\)\|.*{verdict}\|$", text, re.M)) == 1
        assert f'<a id="{name}"></a>' in text
        assert re.search(rf"^### {re.escape(name)} · . {verdict}$", text, re.M)
        assert page.count(f' id="{name}"') == 1
        if not one.claim.untestable:
            size = "" if one.verdict is Verdict.SKIPPED else " --quick"
            assert f"`python -m analysis.verify --only {name}{size}`" in text
            assert f"<code>python -m analysis.verify --only {name}{size}</code>" in plain


def test_links_lead_somewhere(written):
    text, page, folder = written
    anchors = re.findall(r'<a id="([^"]+)"></a>', text)
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= set(anchors)
    for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
        assert 0 < (folder / name).stat().st_size < 60_000
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_numbers_are_told_with_their_intervals_digits_and_units(written):
    text, page, _ = written
    assert "**Criterion**: agrees with 56.0% [45.7, 65.9] (56 of 100), margin 10 points" in text
    assert "**Here**: **60.7% [57.7, 63.7]**, of 100 simulations, +4.7 points [" in text
    assert "|56.0% [45.7, 65.9] (56 of 100) → 60.7% [57.7, 63.7]|" in text
    for told in (
        "420.0 epochs [160.0, 680.0]", "Cohen's d 0.35", "6.0 clusters", "above 50%", "below 3 epochs",
        "from -1 to 1 epochs", "all, without exception", "-0.64 [-0.75, -0.49]", "no value", "35.5 ± 3.7",
    ):  # fmt: skip
        assert told in text
        assert told.replace("'", "&#x27;") in page.replace("\N{NO-BREAK SPACE}", " ")
    assert "nan" not in re.sub(r"[a-z]nan|nan[a-z]", "", text.lower())
    assert not re.search(r"-0(\.0+)?(?![.\d])", text)


def test_the_summary_counts_verdicts_and_tells_three_disagreements(written):
    text, _, _ = written
    every = all_judged()
    counts = [sum(one.verdict is verdict for one in every) for verdict in Verdict]
    assert f"|all|{'|'.join(map(str, counts))}|{len(every)}|" in text
    told = text[text.index("### The most interesting") : text.index("How they were picked")]
    assert told.count("**The paper:**") == told.count("**Here:**") == told.count("**What it means:**") == 3
    assert told.index("VC.s4.nasty") < told.index("CA.table2.k6")


def test_an_entry_tells_rule_readings_contradictions_and_its_study(written):
    text, _, _ = written
    entry = text[text.index('<a id="CA.s4.parts">') : text.index('<a id="CA.figure5.same">')]
    assert "**(a)** this way; **(b)** that way. Tested is (a)." in entry
    assert "**Only partly**." in entry
    assert "|✕ not reproduced: further apart than by chance, and far|" in entry
    assert "|reproduced|" in entry
    assert "figure `python -m analysis.paper ca5`" in entry
    nasty = text[text.index('<a id="VC.s4.nasty">') :]
    assert "**This contradicts the paper**: the interval lies on the other side. What follows: " in nasty
    assert "- **Criterion**: above 1\n- **Here**: **0.1 [0.0, 0.2]**, of 100 runs\n" in nasty
    later = text[text.index('<a id="VC.figure6.later">') :]
    assert "its study is too dear for it; it is done at default and full size" in later
    assert "(VC.s5.open) Not tested: It is about larger models." in text
    first = text[text.index('<a id="CA.table2.k0">') :]
    assert first.index("study [CA.0](#CA.0), smaller than the paper's") < first.index("CA.table2.k1")
    assert "**These runs cannot tell**: too few for an interval." in text


def test_what_all_parts_have_in_common_is_said_once(tmp_path):
    parts = [part(Above(1), found(value, of="spikes"), label) for value, label in ((5, "first"), (6, "second"))]
    one = judge_claim(claim("CA.s4.alike", *parts), EVIDENCE, Size.QUICK)
    text = write_report([one], ABOUT, STUDIES, tmp_path / "a.md", pictures=False)[0].read_text()
    assert "- **Criterion**: each above 1\n- **Of**: each 100 spikes\n" in text
    assert "||here|verdict|\n|---|---|---|\n|first|**5.0 [4.0, 6.0]**|reproduced|" in text


def test_the_front_says_what_its_numbers_are_of(written):
    text, _, _ = written
    assert "**Time of the measuring**: 1 h 24 min; runs that were there before aside" in text
    assert "**Ensembles named by the studies**: 12,345 runs" in text
    assert "Python 3.11.9, device cpu, 2 cores, commit 5be88b0" in text


def test_what_a_family_of_claims_has_in_common_is_told_once(tmp_path):
    long = "by counting, in a way that takes so many words to tell that nobody would like to read them again, and again"
    names = ("CA.s4.first", "CA.s4.second", "VC.s4.third")
    every = [
        judge_claim(claim(name, part(Above(1), found(5)), measured=long, refuted=name, readings=(long, "not")),
            EVIDENCE,
               Size.QUICK) for name in names
    ]  # fmt: skip
    text = write_report(every, ABOUT, STUDIES, tmp_path / "a.md", pictures=False)[0].read_text()
    assert text.count("nobody would like to read them again") == 2
    assert text.count("- **Readings, measured**: As for [CA.s4.first](#CA.s4.first).\n") == 2
    assert all(f"- **Refuted by**: {name}." in text for name in names)


def test_studies_are_told_once_with_size_and_what_is_smaller(tmp_path):
    every = [judge_claim(one, EVIDENCE, Size.DEFAULT) for one in many()]
    about = ABOUT._replace(size=Size.DEFAULT, created_at="2026-11-21T14:05:59+00:00")
    path, page = write_report(every, about, STUDIES, tmp_path / "a.md", pictures=False)
    text = path.read_text()
    told = text[text.index("## Studies") : text.index("## Where everything is")]
    count = sum(one.claim.experiment == "CA.0" for one in every)
    row = '|<a id="CA.0"></a>CA.0|what is measured|runs 4, wd [0, 1]|32 runs in place of 100|'
    assert f"{row}{count}|" in told
    assert '<tr id="CA.0"><th scope="row"' in page.read_text()
    assert "`python -m analysis.verify --only CA.table2.k0`" in text
    assert "2026-11-21, 14:05 UTC" in text
    assert "![" not in text
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.html", "a.md"]


def test_how_it_was_judged_is_the_rules_own_account(written):
    text, _, _ = written
    said = text[text.index("## How it was judged") : text.index("## Where everything is")]
    words = " ".join(said.replace("*", "").replace("- ", "").split())
    for line in rules.__doc__.split("\n"):
        for piece in re.split(r"\s{2,}", line.strip()):
            assert piece in words
    assert "22 numbers are compared" in said  # three papers' six that have an interval, and four parts of a claim
    assert "1.1 of these are to be expected" in said
    assert "7 do." in said  # three of 12.5 more, three of 72 more, and one part
    assert "17 more are held against a bound" in said  # six of CA and of VC, three of CH, and two claims beside these
    assert "no independent confirmation" in said


def test_a_number_that_judges_several_claims_is_counted():
    def one(name, study, bound=1, measure="x"):
        parts = (
            Measurement(partial(of, found(5), measure), Above(bound)),
            Measurement(partial(of, found(6), name), Every(), "own"),
        )
        return ClaimResult(claim(name, *parts, study=study), (found(5), found(6)), (), Verdict.PARTLY, Size.QUICK)

    every = [one("CA.a", "s"), one("CA.b", "s"), one("VC.c", "other"), one("VC.d", "s", 2), one("VC.e", "s", 1, "y")]
    (told,) = methods._shared(every)
    assert "2 of the 5 verdicts rest" in told
    assert methods._shared(every[1:]) == []


def test_what_has_no_width_is_not_counted_among_what_chance_may_decide(tmp_path):
    exact = judge_claim(
        claim("CA.a.exact", part(Agrees(reported_number("5 [5, 5]"), 1), found(5, 0))), EVIDENCE, Size.QUICK
    )
    drawn = judge_claim(
        claim("CA.a.drawn", part(Agrees(reported_number("5 [4, 6]"), 1), found(5))), EVIDENCE, Size.QUICK
    )
    text = write_report([exact, drawn], ABOUT, STUDIES, tmp_path / "a.md", pictures=False)[0].read_text()
    assert "1 numbers are compared" in text


def test_the_index_tells_what_covers_a_place_and_why_others_have_nothing(written):
    text, _, _ = written
    index = text[text.index("## Where everything is") :]
    assert "|figure 5|[figure5.same](#CA.figure5.same)|" in index
    assert "|section 1|states nothing to test: introduction" in index
    assert "|table 1|no claim among these|" in index
    for paper in PAPERS:
        for place in paper.places:
            assert f"|{place}|" in index


# ------------------------------------------------------------------------------------------- how it is written


def test_signs_in_texts_are_shown_as_they_are(written):
    text, page, _ = written
    assert page.count("<script>") == 1  # the page's own
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    entry = text[text.index('<a id="VC.s4.nasty">') : text.index('<a id="VC.s5.open">')]
    assert r"\| b \< c > d & e \&amp; \*bold\* \_x\_ f_a [1\](2) \$y\$ \`z\` \~\~no\~\~ \<script>" in entry
    rows = [line for line in text.splitlines() if line.startswith("|[") and "#paper" not in line]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}


@pytest.mark.parametrize(
    ("plain_text", "markdown"),
    [
        ("# a", r"\# a"),
        ("- a", r"\- a"),
        ("1. a", r"1\. a"),
        ("> a", r"\> a"),
        ("2.5 a", "2.5 a"),
        ("-1 a", "-1 a"),
        ("+", r"\+"),
        ("12)", r"12\)"),
        ("--", r"\--"),
        ("#1", "#1"),
    ],
)
def test_signs_at_the_beginning_of_a_line(plain_text, markdown):
    from analysis.reproduction.report.document import Document, Paragraph
    from analysis.reproduction.report.markdown import render_markdown as written_as

    assert written_as(Document("t", (Paragraph((plain_text,)),), ()), "f") == f"# t\n\n{markdown}\n"


def test_the_same_input_gives_the_same_bytes(written, tmp_path):
    paths = write_report(all_judged(), ABOUT, STUDIES, tmp_path / "report.md", pictures=True)
    assert tuple(path.read_text() for path in paths) == written[:2]


def test_a_report_that_cannot_be_written_leaves_what_was_there(tmp_path):
    from dynamics.errors import RecordingError

    (tmp_path / "report.html").mkdir()
    with pytest.raises(RecordingError, match=r"report\.html"):
        write_report(all_judged()[:1], ABOUT, STUDIES, tmp_path / "report.md", pictures=False)
    assert not [each for each in tmp_path.iterdir() if each.name.endswith(".tmp")]


def test_pictures_of_a_former_report_go_and_what_is_no_report_s_stays(tmp_path, monkeypatch):
    folder = tmp_path / "r-figures"
    folder.mkdir()
    for name in ("ca5.png", "numbers.png", "mine.png"):
        (folder / name).write_bytes(b"former")
    (tmp_path / "r.md").write_text("former")
    one = judge_claim(claim("CA.s8.open", untestable="it is an outlook"), None, Size.QUICK)

    def fails(*args):
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(report, "render_html", fails)
        with pytest.raises(RuntimeError):
            write_report([one], ABOUT, {}, tmp_path / "r.md")
    assert (tmp_path / "r.md").read_text() == "former"
    assert {each.name for each in folder.iterdir()} == {"ca5.png", "numbers.png", "mine.png"}
    write_report([one], ABOUT, {}, tmp_path / "r.md")
    assert {each.name for each in folder.iterdir()} == {"verdicts.png", "mine.png"}
    (folder / "mine.png").unlink()
    write_report([one], ABOUT, {}, tmp_path / "r.md", pictures=False)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["r.html", "r.md"]


def test_fonts_that_are_not_there_are_not_told_while_drawing(tmp_path, monkeypatch, caplog):
    def draws(*args):
        logging.getLogger("matplotlib.font_manager").warning("findfont: Font family 'x' not found.")
        return {}

    monkeypatch.setattr(report, "_pictures", draws)
    write_report([judge_claim(claim("CA.s8.open", untestable="no"), None, Size.QUICK)], ABOUT, {}, tmp_path / "r.md")
    assert not caplog.records
    draws()
    assert caplog.records


def test_a_report_without_claims_or_numbers(tmp_path):
    one = judge_claim(claim("CA.s8.open", untestable="it is an outlook"), None, Size.QUICK)
    text = write_report([one], ABOUT, {}, tmp_path / "a.md", pictures=True)[0].read_text()
    assert "No claim of the papers that was tested was judged not reproduced" in text
    assert "No number was compared with a paper's." in text
    assert "numbers.png" not in text


# ------------------------------------------------------------------------------------------------ pictures


def test_a_plate_is_drawn_once_of_runs_that_are_there(tmp_path):
    need = RequiredRuns(ParticleSettings(fa=1.0), 6)
    simulate(need.settings, 6, out=run_path(need.settings, 6, 0, every=need.settings.default_every))
    every = [one for one in all_judged() if one.claim.figure]
    studies = {"s": study("s", sizes={Size.QUICK: {"runs": 6}}, ensembles=lambda params: [need])}
    first, second = write_report(every, ABOUT, studies, tmp_path / "out" / "r.md", pictures=True)
    text, page = first.read_text(), second.read_text()
    assert text.count("(r-figures/ca5.png)") == 1
    assert page.count("data:image/png;base64,") == 3  # with the report's own two
    assert "figure `python -m analysis.paper ca5`, below" in text
    assert "figure [under CA.s4.parts](#CA.s4.parts)" in text
    assert (tmp_path / "out" / "r-figures" / "ca5.png").stat().st_size < 60_000
    assert len(list((tmp_path / "runs").glob("*.nc"))) == 1  # nothing was made for a picture


def test_circuits_of_an_ensemble_are_labelled_once(monkeypatch):
    asked = []
    known = circuits.measure_invariances
    monkeypatch.setattr(circuits, "measure_invariances", lambda *args: asked.append(args) or known(*args))
    monkeypatch.setattr(circuits, "_labels", {})
    small = SparseSettings(length=6, sparsity=2, hidden=8, data=64, batch=16)
    found = simulate(small, runs=2, steps=0, progress=False)
    first = circuits.cached_circuit_labels(found)
    assert circuits.cached_circuit_labels(found.copy(), 0) == first
    assert len(asked) == 1
    circuits.cached_circuit_labels(found.isel(run=[1]))
    circuits.cached_circuit_labels(found.assign(value=2 * found["value"]))
    assert len(asked) == 3
    for run in range(4):
        circuits.cached_circuit_labels(found.isel(run=[0]).assign(value=run * found["value"].isel(run=[0])))
    assert len(circuits._labels) == circuits.MOST_CACHED_LABELS


def test_plates_whose_runs_are_not_there_make_none(tmp_path):
    figures = ["ca6", "vc6", "vc9", "vc11", "vc12"]
    every = [
        judge_claim(claim(f"VC.{each}", part(Above(1), found(5)), figure=each), EVIDENCE, Size.FULL) for each in figures
    ]
    text = write_report(every, ABOUT, {}, tmp_path / "r.md", pictures=True)[0].read_text()
    for each in figures:
        assert f"figure `python -m analysis.paper {each}`" in text
    assert not (tmp_path / "runs").exists()


# ------------------------------------------------------------------------------------------------ the page


def test_the_page_fetches_nothing_fits_a_narrow_screen_and_filters(written, chromium_page, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(written[1])
    page = chromium_page
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert {address.split(":")[0] for address in page.asked} <= {"file", "data"}
    every = all_judged()
    assert page.locator("article:visible").count() == len(every)
    for verdict in Verdict:
        if verdict is not Verdict.NOT:
            page.uncheck(f'input[value="{verdict.value}"]')
    page.uncheck('input[value="OWN"]')
    kept = [one for one in every if one.verdict is Verdict.NOT and one.claim.paper != "OWN"]
    assert page.locator("article:visible").count() == page.locator("tr.claim:visible").count() == len(kept)
    assert page.locator("output").inner_text() == f"{len(kept)} of {len(every)} claims shown"
    page.evaluate("location.hash = 'OWN.audit.k0'")  # a link to what is hidden shows it
    page.wait_for_function("document.querySelectorAll('article[hidden]').length === 0")
    levels = page.eval_on_selector_all("h1, h2, h3, h4", "all => all.map(one => +one.tagName[1])")
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.evaluate("[...document.images].every(one => one.alt)")


def test_the_page_says_everything_without_its_script(written, chromium, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(written[1])
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator("article:visible").count() == len(all_judged())
    assert not page.locator("form").is_visible()
    context.close()
