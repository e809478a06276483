"""What the README shows works as it stands."""

import re

from matplotlib.image import imread

from analysis.reproduction.experiment import Size
from analysis.reproduction.registry import CLAIMS
from analysis.reproduction.report.headlines import HEADLINES
from analysis.reproduction.report.report import SIZES
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


PAGES = {path.stem: path.read_text() for path in (ROOT / "docs").glob("report*.md")}
ANCHOR = re.compile(r'<a id="([\w.-]+)"></a>')


def test_results_link_to_claims_of_the_report():
    links = re.findall(r"\[All\s+numbers\]\(docs/([\w-]+)\.md#([\w.-]+)\)", README)
    assert len(links) == len(HEADLINES) - 1  # the last links to those that differ
    for page, name in links:
        assert name in ANCHOR.findall(PAGES[page])


def test_the_report_is_of_a_default_run_and_has_all_claims():
    assert f"of our own runs ({SIZES[Size.DEFAULT]})" in PAGES["report"]
    claims = []
    for text in PAGES.values():
        assert len(text.encode()) < 100_000
        claims += ANCHOR.findall(text)
    assert sorted(claims) == sorted(claim.name for claim in CLAIMS)
