"""The main results on README, the home page and the page of results are those of the
stored measurements."""

import re

import numpy as np
import pytest

from analysis.reproduction.claim import Verdict
from analysis.reproduction.papers import OWN
from analysis.reproduction.report import headlines
from analysis.reproduction.report.headlines import AGAINST, HEADLINES
from docs import card_pictures
from docs.write_results import (
    CARDS,
    DOCS,
    PAGES,
    judge_all_claims,
    results_block,
    updated_files,
)
from tests.polygons import polygon


@pytest.fixture(scope="module")
def findings():
    return judge_all_claims()


def test_results_and_cards_are_those_of_the_evidence():
    files = updated_files()
    for path, text in files.items():
        written = path.read_text(encoding="utf-8")
        assert written == text, f"{path.name}: run python docs/write_results.py"
    assert {path for path in files if path.suffix == ".svg"} == {*CARDS.iterdir()}
    for page in PAGES:
        assert all(headline.title in files[page] for headline in HEADLINES)


def test_pictures_exist():
    for headline in HEADLINES:
        assert (CARDS / f"{headline.card}.svg").is_file()
        assert (DOCS / headline.picture).exists()


def test_the_summary_counts_the_statements_of_the_papers(findings):
    text = headlines.summary_text(findings)
    claims, supported, against, left = (
        int(re.search(words, text)[1])
        for words in (
            r"Of (\d+) statements of four papers",
            r"(\d+) agree or hold",
            r"(\d+) do not",
            r"(\d+) are open",
        )
    )
    assert claims == supported + against + left
    report = (DOCS / "report.md").read_text()
    rows = re.findall(r"^\|(\w+)\|(?!Own)\w+: \[[^|]*`\|", report, re.MULTILINE)
    assert len(rows) == claims
    assert sum(row in AGAINST for row in rows) == against
    assert rows.count(Verdict.OPEN) == left
    all_runs = re.search(r"from ([\d,]+) of our own runs", report)[1]
    assert 0 < findings.runs < int(all_runs.replace(",", ""))  # less than with our own


def test_what_did_not_hold_is_all_that_did_not(findings):
    text = results_block(findings)
    section = text[text.index("## What did not hold") :]
    names = re.findall(r"\(report-\w+\.md#([\w.-]+)\)", section)
    expected = [
        result.claim.name
        for result in findings.results
        if result.verdict in AGAINST and result.claim.paper != OWN.short
    ]
    assert names == expected
    for number in HEADLINES[-1].numbers.values():  # those that the card names
        assert findings.of(number.claim).verdict in AGAINST


def test_numbers_from_evidence_fit_those_of_the_claims(findings):
    forces, decay, drops = (
        {
            name: headlines.number_interval(number, findings)
            for name, number in headline.numbers.items()
        }
        for headline in HEADLINES
        if headline.card in ("forces", "decay", "drops")
    )
    gain = findings.of("OWN.audit").numbers[2].estimate.interval
    difference = forces["here"].value - forces["renamed"].value
    assert difference == pytest.approx(100 * gain.value)
    gain = findings.of("CA.s7.link").numbers[1].estimate.interval
    assert decay["decayed"].value - decay["plain"].value == pytest.approx(gain.value)
    assert 0 < drops["first"].low < drops["first"].high < drops["here"].low < 100


def test_cards_choose_a_grid_that_is_not_flat():
    rows = [[k, 3.0 * (k % 4)] for k in range(17)]
    flat = [[k, 0.1 * (k % 4)] for k in range(17)]
    embeddings = np.array([polygon(17), flat, rows, polygon(17)])
    chosen = card_pictures.most_regular_grid(embeddings - embeddings.mean(1)[:, None])
    assert chosen[:, 1].std() > 1
