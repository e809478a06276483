"""What the README shows works as it stands."""

import re

from matplotlib.image import imread

from analysis.reproduction.registry import CLAIMS
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()


def test_the_first_example_draws_circles(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 10
    exec(compile(code, "README.md", "exec"), {})
    assert imread(tmp_path / "circles.png").shape[:2] > (300, 300)


def test_the_makefile_has_the_targets_of_the_readme():
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


REPORT, SECOND_REPORT = (
    (ROOT / "docs" / name).read_text()
    for name in ("report.md", "report-transformer.md")
)


def test_verdicts_are_those_of_the_report():
    """The verdicts of some main claims, and the headline."""
    entries = dict(
        re.findall(
            r"^<a id=\"[^\"]+\"></a>\*\*([\w.-]+)\*\* (.) ", REPORT, flags=re.MULTILINE
        )
    )
    shown = re.findall(r"(.) \[([\w.-]+)\]\(docs/report\.md#\2\)", README)
    assert len(shown) > 5
    assert [(name, mark) for mark, name in shown if entries[name] != mark] == []
    for report in (REPORT, SECOND_REPORT):
        headline = re.search(
            r"^\*\*(\d+ empirical claims) of the papers (were tested: .*)\.\*\*$",
            report,
            re.MULTILINE,
        )
        assert headline
        assert headline[0] in README or " ".join(headline.groups()) in README.replace(
            "\n", " "
        )


def test_reports_are_of_default_runs_and_short():
    claims = []
    for report, size in ((REPORT, 150_000), (SECOND_REPORT, 30_000)):
        first_page = report[: report.index("## Where we disagree")]
        assert re.search(r"[\d,]+ of our own runs \(default size: ", first_page)
        assert len(report.encode()) < size
        claims += re.findall(r'<a id="((?:CA|VC|CH|ZL|NA|OWN)\.[\w.-]+)"></a>', report)
    assert sorted(claims) == sorted(claim.name for claim in CLAIMS)
