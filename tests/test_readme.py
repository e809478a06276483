"""What the README shows works as it stands."""

import re

from matplotlib.image import imread

from analysis.reproduction.registry import CLAIMS
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()


def test_the_first_example_draws_circles():
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 10
    exec(compile(code, "README.md", "exec"), {})
    assert imread("circles.png").shape[:2] > (300, 300)


def test_the_makefile_has_the_targets_of_the_readme():
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


SUMMARIES = ("report", "report-transformer")
PAGES = {path.stem: path.read_text() for path in (ROOT / "docs").glob("report*.md")}


def test_verdicts_are_those_of_the_report():
    """The verdicts of some main claims, and the headline."""
    entry = re.compile(r'^<a id="[^"]+"></a>\*\*([\w.-]+)\*\* (.) ', re.MULTILINE)
    entries = {page: dict(entry.findall(text)) for page, text in PAGES.items()}
    links = re.findall(r"(.) \[([\w.-]+)\]\(docs/([\w-]+)\.md#\2\)", README)
    assert len(links) == 3
    for mark, name, page in links:
        assert entries[page][name] == mark, name
    for summary in SUMMARIES:
        headline = re.search(
            r"^\*\*(\d+ empirical claims) of the papers (were tested: .*)\.\*\*$",
            PAGES[summary],
            re.MULTILINE,
        )
        assert headline
        assert headline[0] in README or " ".join(headline.groups()) in README.replace(
            "\n", " "
        )


def test_reports_are_of_default_runs_and_short():
    for summary in SUMMARIES:
        first_page = PAGES[summary][: PAGES[summary].index("## Where we disagree")]
        assert re.search(r"[\d,]+ of our own runs \(default size: ", first_page)
    claims = []
    for text in PAGES.values():
        assert len(text.encode()) < 100_000
        claims += re.findall(r'<a id="((?:CA|VC|CH|ZL|NA|OWN)\.[\w.-]+)"></a>', text)
    assert sorted(claims) == sorted(claim.name for claim in CLAIMS)
