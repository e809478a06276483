"""What the README shows works as it stands."""

import re

from matplotlib.image import imread

from analysis.reproduction.registry import CLAIMS
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()


PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_first_example_draws_circles(tmp_path):
    code = PYTHON[0]
    assert len([line for line in code.splitlines() if line]) <= 10
    exec(compile(code, "README.md", "exec"), {})
    assert imread(tmp_path / "circles.png").shape[:2] > (300, 300)


def test_networks_are_evaluated_and_differentiated():
    assert len(PYTHON) == 2
    names = {}
    exec(compile(PYTHON[1], "README.md", "exec"), names)
    assert names["logits"].shape == (4, 21, 153, 17)
    assert names["gradient"]["hidden_weight"].shape == (32, 2)


def test_the_makefile_has_the_targets_of_the_readme():
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


REPORT = (ROOT / "docs" / "report.md").read_text()


def test_verdicts_are_those_of_the_report():
    """The table of what the papers are known for, and how many claims there are of each verdict."""
    told = re.findall(r"^\| \[([\w.-]+)\]\(docs/report\.md#\1\) \|.*\| . (.*?) \|$", README, flags=re.MULTILINE)
    assert len(told) > 15
    for name, verdict in told:
        assert re.search(rf"^#+ {re.escape(name)} · . {verdict}$", REPORT, flags=re.MULTILINE), name
    counts = re.findall(r"^\|\[?(?:CA|VC|CH|our own|all)[\]|].*$", README, flags=re.MULTILINE)
    assert len(counts) == 5
    for line in counts:
        assert line.replace("(docs/report.md#", "(#") in REPORT


def test_the_report_is_of_a_default_run_and_links_lead_to_claims():
    assert "- **Size**: default" in REPORT
    named = set(re.findall(r"docs/report\.md#((?:CA|VC|CH|OWN)\.[\w.-]+)\)", README))
    assert len(named) > 15
    assert named <= {claim.name for claim in CLAIMS}
