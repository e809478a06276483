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


REPORT = (ROOT / "docs" / "report.md").read_text()


def test_verdicts_are_those_of_the_report():
    """The verdicts of some main claims, and the headline."""
    entries = dict(re.findall(r"^<a id=\"[^\"]+\"></a>\*\*([\w.-]+)\*\* (.) ", REPORT, flags=re.MULTILINE))
    shown = re.findall(r"(.) \[([\w.-]+)\]\(docs/report\.md#\2\)", README)
    assert len(shown) > 5
    assert [(name, mark) for mark, name in shown if entries[name] != mark] == []
    headline = re.search(r"^\*\*\d+ empirical claims of the papers were tested: .*\*\*$", REPORT, flags=re.MULTILINE)
    assert headline
    assert headline[0] in README


def test_the_report_is_of_a_default_run_and_short():
    first_page = REPORT[: REPORT.index("## The main claims")]
    assert re.search(r"[\d,]+ of our own runs \(default size: ", first_page)
    assert len(REPORT.encode()) < 150_000
    claims = re.findall(r'<a id="((?:CA|VC|CH|ZL|NA|OWN)\.[\w.-]+)"></a>', REPORT)
    assert set(claims) == {claim.name for claim in CLAIMS}
