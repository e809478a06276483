"""The report: what its pages show, and how they are written."""

import math
import re

import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from analysis.reproduction.claim import (
    Claim,
    Number,
    Sign,
    exact_number,
    printed_count,
    printed_number,
)
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.evidence import ScheduledExperiment
from analysis.reproduction.experiment import Experiment, RequiredRuns, Size, Sizing
from analysis.reproduction.figures.register import PAPER_FIGURES
from analysis.reproduction.report import illustrations, report, strips
from analysis.reproduction.report.markdown import escape_markdown
from analysis.reproduction.results import (
    claim_result_table,
    count_verdicts,
    format_claim_result,
    judge_claim,
)
from analysis.statistics.intervals import NO_INTERVAL, Interval
from dynamics import ParticleSettings, RecordingError, run_path, simulate

SPECIAL = (
    "a | b < c > d & e &amp; *bold* _x_ f_a [1](2) $y$ `z` ~~no~~"
    " <script>alert(1)</script> \\ 1. # end"
)
EVIDENCE = xr.Dataset(
    attrs={
        "created_at": "2026-11-21T14:05:59+00:00",
        "package_versions": '{"Python": "3.11.9"}',
        "cores": 2,
        "device": "cpu",
        "git_commit": "5be88b0",
        "seconds": 5025.0,
    }
)
FIGURE = PAPER_FIGURES[0].name


def number(expected, value, half=1.0, label="it", unit="", note="", count=100):
    estimate = Estimate(Interval(value, value - half, value + half), count, note=note)
    return Number(lambda evidence: estimate, expected, label, unit)


def claim(name, *numbers, **more):
    usual = {
        "place": "section 4",
        "passage": "some words",
        "statement": f"Claim {name} holds.",
    }
    return Claim(name, numbers=numbers, **(usual | more))


CLAIMS = (
    claim("CA.agrees", number(printed_count(56), 60.7, 3, unit="%"), summary="one"),
    claim("CA.differs", number(printed_number("35.5 ± 3.7"), 48.0), summary="two"),
    claim("CA.holds", number(Sign.POSITIVE, 3.0), summary="three", figure=FIGURE),
    claim("VC.contradicted", number(Sign.POSITIVE, -3.0), comment="A large effect."),
    claim("VC.open", number(Sign.NEGATIVE, -0.5, unit="points"), summary="four"),
    claim("VC.none", number(exact_number(100, "all"), math.nan, math.nan)),
    claim("VC.special", number(Sign.POSITIVE, 1.5, note=SPECIAL), statement=SPECIAL),
    claim("OWN.several", *(number(Sign.POSITIVE, k, label=f"{k}") for k in (2, -2))),
)
NEED = RequiredRuns(ParticleSettings(n=5), 4, 2)
EXPERIMENT = Experiment(
    "ca.some",
    "what is measured",
    lambda runner, params: xr.Dataset(),
    default=Sizing(1, {"runs": 4}, "fewer runs"),
    ensembles=lambda params: (NEED,),
    claims=CLAIMS,
)
RESULTS = [
    judge_claim(item, EXPERIMENT, EVIDENCE, Size.DEFAULT, "fewer runs")
    for item in CLAIMS
]
STEPS = [ScheduledExperiment(EXPERIMENT, EXPERIMENT.default, None, 0.0)]


def write(out, results=RESULTS, pictures=False):
    return report.write_report(
        results, {"ca.some": EVIDENCE}, STEPS, Size.DEFAULT, "cpu", out, pictures
    )


@pytest.fixture
def pages(tmp_path):
    """The texts of all pages by the names of their files."""
    paths = write(tmp_path / "report.md")
    return {path.name: path.read_text() for path in paths}


def test_a_page_for_each_paper_that_has_claims(pages):
    assert [*pages] == ["report.md", "report-ca.md", "report-vc.md", "report-own.md"]
    for item in CLAIMS:
        page = pages[f"report-{item.paper.lower()}.md"]
        title = f"## Claim {item.name} holds ("
        assert (
            f'<a id="{item.name}"></a>\n\n{title}' in page or item.statement == SPECIAL
        )
    links = re.findall(r"\]\(([\w-]+\.md)(?:#([\w.-]+))?\)", "".join(pages.values()))
    for name, anchor in links:
        assert f'<a id="{anchor}"></a>' in pages[name] or not anchor


def test_the_summary_has_a_sentence_a_table_and_the_disagreements(pages):
    text = pages["report.md"]
    lists = text[text.index("**Does not hold:**") : text.index("## The claims")]
    assert lists.split("\n\n")[:-1] == [
        "**Does not hold:**",
        "- CA: [two](report-ca.md#CA.differs)",
        "**Open:**",
        "- VC: [four](report-vc.md#VC.open)",
        "**Holds:**",
        "- CA: [one](report-ca.md#CA.agrees)\n- CA: [three](report-ca.md#CA.holds)",
    ]
    assert "|[CA](report-ca.md)|1|1|1|0|0|" in text
    row = next(line for line in text.splitlines() if "`CA.agrees`" in line)
    assert row.startswith(
        "|agrees|CA: [Claim CA.agrees holds.](report-ca.md#CA.agrees)"
    )
    assert "|it|56 of 100|60.7% [57.7, 63.7]|" in row
    disagreements = text[text.index("## Where we disagree") :]
    named = re.findall(r"^\w+: \[.+\]\(.+#([\w.]+)\)", disagreements, re.MULTILINE)
    assert named == ["CA.differs", "VC.contradicted"]
    assert "A large effect. Fewer runs." in disagreements
    assert "|ca.some|what is measured|runs 4|fewer runs|1 h 24 min|" in text


def test_every_number_of_a_claim_is_on_the_page_of_its_paper(pages):
    text = pages["report-own.md"]
    assert "|holds|2|above 0|2.0 [1.0, 3.0]||100 runs|" in text
    assert "|contradicted|-2|above 0|-2.0 [-3.0, -1.0]||100 runs|" in text
    assert "**Holds.**" in text  # by the first
    row = r"\|open\|.*\|all\|no value\|no value\|100 runs\|"
    assert re.search(row, pages["report-vc.md"])


def test_versions_of_a_paper_count_once(pages):
    assert "by two papers and" in pages["report.md"]
    papers = report.PAPERS
    chosen = [papers[name] for name in ("CA", "VC", "CH", "OWN")]
    assert report.paper_words(chosen) == "two papers, one of them in two versions,"
    assert report.later_versions(chosen) == {"CH": "VC"}


def test_texts_are_shown_as_they_are(pages):
    page = pages["report-vc.md"]
    assert "<script>" not in page.replace("\\<script>", "")
    assert "fₐ" in page
    assert "\\[1\\](2)" in page or "[1\\](2)" in page


def test_results_on_the_terminal_and_as_csv():
    text = format_claim_result(RESULTS[1])
    assert text.startswith("differs       CA.differs: Claim CA.differs holds.")
    assert "expected 35.5 ± 3.7: differs, difference 12.5 [8.7, 16.3]" in text
    assert count_verdicts(RESULTS).startswith("8 claims: 1 agrees, 3 holds, 1 differs")
    table = claim_result_table(RESULTS)
    assert len(table) == 9
    assert table["difference"][1] == 12.5
    assert table["printed"].tolist()[:3] == ["56 of 100", "35.5 ± 3.7", "above 0"]
    skipped = judge_claim(CLAIMS[0], EXPERIMENT, None, Size.QUICK)
    assert "not tested at this size" in format_claim_result(skipped)
    assert len(claim_result_table([skipped])) == 1


def test_a_strip_has_the_numbers_on_one_scale():
    agrees, holds = (strips.number_strip(RESULTS[k].numbers[0]) for k in (0, 2))
    assert agrees.ours.low < agrees.ours.value < agrees.ours.high
    assert agrees.printed.value < agrees.ours.value
    assert math.isnan(agrees.zero)
    assert holds.zero < holds.ours.low
    assert holds.printed == pytest.approx(NO_INTERVAL, nan_ok=True)
    assert all(0 <= item <= 100 for item in (*agrees.ours, *agrees.printed))
    assert strips.number_strip(RESULTS[5].numbers[0]) is None


@given(low=st.floats(-1e6, 1e6), size=st.floats(1e-7, 1e6), decimals=st.integers(0, 7))
def test_a_scale_ends_at_short_round_numbers_next_to_the_data(low, size, decimals):
    low = round(low, decimals)
    high = low + size
    start, end, step = strips.round_scale(low, high)
    near = 1e-6 * step + 1e-9 * abs(low)
    assert low - step - near <= start <= low + near
    assert high - near <= end <= high + step + near
    assert step <= (end - start) / (strips.STEPS - 1)


def test_ends_of_scales_are_numbers_that_a_reader_expects():
    for low, high, ends in (
        (0, 100, ("0", "100")),
        (0, 8790, ("0", "8800")),
        (0, 2.47e-5, ("0", "2.5e−5")),
        (-0.2, 0, ("−0.2", "0")),
        (0.987, 0.997, ("0.987", "0.997")),
        (3, 3, ("3", "3.1")),
    ):
        start, end, step = strips.round_scale(low, high)
        assert (strips.format_end(start, step), strips.format_end(end, step)) == ends


def test_pages_and_pictures_of_an_earlier_report_are_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, folder = tmp_path / "report.md", tmp_path / "report-figures"
    monkeypatch.setattr(illustrations, "draw_available_figures", lambda *arguments: {})
    write(out, pictures=True)
    names = {path.name for path in folder.iterdir()}
    assert "strips-CA.agrees.svg" in names
    assert "strips-VC.none.svg" not in names
    (folder / f"{FIGURE}.png").write_bytes(b"old")
    (folder / "own.png").write_bytes(b"mine")
    write(out, RESULTS[:1], pictures=True)
    assert {path.name for path in folder.iterdir()} == {
        "strips-CA.agrees.svg",
        "own.png",
    }
    assert not (tmp_path / "report-vc.md").exists()


def test_figures_are_drawn_from_runs_that_exist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = illustrations.draw_available_figures
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(illustrations, "load_figure_runs", None)  # makes no run
        assert draw({FIGURE: "CA.holds"}, RESULTS, Size.QUICK, tmp_path) == {}
    settings = ParticleSettings()
    simulate(settings, 100, out=run_path(settings, 100, 0)).close()
    result = judge_claim(
        claim("CA.figure5.x", number(Sign.POSITIVE, 3.0), figure="ca5"),
        EXPERIMENT,
        EVIDENCE,
        Size.DEFAULT,
    )
    claims = illustrations.first_claims([result], Size.DEFAULT)
    pictures = draw(claims, [result], Size.DEFAULT, tmp_path)
    assert pictures["ca5"].claim == "CA.figure5.x"
    assert (tmp_path / "ca5.png").stat().st_size > 1000


def test_a_figure_of_an_earlier_report_stays_with_its_caption(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, folder = tmp_path / "report.md", tmp_path / "report-figures"
    picture = illustrations.Picture(FIGURE, "CA.holds", "a [b\\]", "Title. Two words.")
    with monkeypatch.context() as patch:
        patch.setattr(
            illustrations,
            "draw_available_figures",
            lambda *arguments: {picture.name: picture},
        )
        write(out, pictures=True)
    (folder / f"{FIGURE}.png").write_bytes(b"drawn")
    before = (tmp_path / "report-ca.md").read_text()
    assert f"![a [b\\]]({folder.name}/{FIGURE}.png)\nTitle. Two words." in before
    write(out, pictures=True)  # its runs do not exist
    assert (tmp_path / "report-ca.md").read_text() == before
    assert (folder / f"{FIGURE}.png").read_bytes() == b"drawn"


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(report.os, "access", lambda *arguments: False)
    with pytest.raises(RecordingError, match="no files can be written"):
        report.check_report_path(tmp_path / "report.md")


def test_templates_escape_what_markdown_would_read():
    assert escape_markdown("f_a * 2 | [1](2)") == r"fₐ \* 2 \| [1\](2)"
    assert "\n" not in escape_markdown(f"{SPECIAL}\nmore")
