"""Write the main results into README.md, docs/index.md and docs/results.md, and their
small pictures into docs/cards, with the numbers of the stored measurements.

python docs/write_results.py"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from analysis import reproduction
from analysis.reproduction.papers import OWN
from analysis.reproduction.report.headlines import (
    AGAINST,
    HEADLINES,
    Findings,
    Headline,
    headline_text,
    summary_text,
)
from analysis.reproduction.report.report import report_provenance
from analysis.reproduction.results import as_sentence, expected_text, number_text
from docs.card_pictures import draw_cards

DOCS = Path(__file__).parent
CARDS = DOCS / "cards"


def judge_all_claims() -> Findings:
    """All claims, judged by the measurements in docs/evidence."""
    claims = reproduction.select_claims(["all"])
    runner = reproduction.Runner(sys.stderr, "cpu", None, DOCS / "evidence")
    experiments = reproduction.required_experiments(claims)
    size = reproduction.Size.DEFAULT
    steps = reproduction.evidence.schedule_experiments(experiments, size, runner)
    evidence = reproduction.evidence.gather_evidence(steps, runner)
    results = []
    for claim in claims:
        experiment = reproduction.EXPERIMENT_OF_CLAIM[claim.name]
        measured = evidence[experiment.name]
        results.append(reproduction.judge_claim(claim, experiment, measured, size))
    stated = [claim for claim in claims if claim.paper != OWN.short]
    needed = reproduction.required_experiments(stated)
    of_papers = [step for step in steps if step.experiment in needed]
    runs = report_provenance(evidence, of_papers, "cpu")["runs"]
    return Findings(results, evidence, runs)


def claim_address(claim: str) -> str:
    """Where a claim stands in the report."""
    return f"report-{claim.split('.')[0].lower()}.md#{claim}"


def numbers_link(headline: Headline, folder: str = "") -> str:
    """A link to the numbers of a headline in the report."""
    if not headline.picture:
        return f"[All of them]({folder}results.md#what-did-not-hold)"
    return f"[All numbers]({folder}{claim_address(headline.claim)})"


def wrap(text: str, indent: str = "") -> str:
    """Text in lines of the pages' width; links are not broken."""
    return textwrap.fill(
        text,
        130,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def summary_block(findings: Findings) -> str:
    """The summary of all results as a block of a page."""
    return wrap(summary_text(findings)) + "\n"


def readme_block(findings: Findings) -> str:
    """The main results as a list below a picture, for README."""
    alt = "Final embeddings of four networks: a circle, grids, and one that is neither"
    lines = [f"![{alt}](docs/cards/four-networks.svg)", ""]
    for headline in HEADLINES:
        text = headline_text(headline, findings)
        link = numbers_link(headline, "docs/")
        lines.append(wrap(f"- **{headline.title}.** {text} {link}", "  "))
    return "\n".join([*lines, ""])


def home_block(findings: Findings) -> str:
    """The results as cards with small pictures."""
    lines = ["::::{grid} 1 2 2 3", ":gutter: 2", ":class-container: findings", ""]
    for headline in HEADLINES:
        lines += [
            f":::{{grid-item-card}} {headline.title}",
            "",
            "```{raw} html",
            f":file: cards/{headline.card}.svg",
            "```",
            "",
            wrap(headline_text(headline, findings)),
            numbers_link(headline),
            ":::",
        ]
    return "\n".join([*lines, "::::", ""])


def results_block(findings: Findings) -> str:
    """The results as sections of a page, and the statements that do not hold."""
    lines = []
    for headline in HEADLINES:
        text = f"{headline_text(headline, findings)} {headline.more}".strip()
        lines += [f"## {headline.title}", "", wrap(text), ""]
        if headline.picture:
            lines += [
                f"{numbers_link(headline)} of this statement.",
                "",
                f"![{headline.shows}]({headline.picture})",
                "",
            ]
    return "\n".join([*lines, *statements_against(findings), ""])


def statements_against(findings: Findings) -> list[str]:
    """A list of the statements of papers that differ from our results or are contradicted
    by them."""
    lines = []
    for result in findings.results:
        claim = result.claim
        if claim.paper == OWN.short or result.verdict not in AGAINST:
            continue
        first, *_ = result.numbers
        here = f"{first.number.label}: {number_text(first)}"
        text = (
            f"- {claim.paper}: *{as_sentence(claim.statement)}* Here {here}, and"
            f" {expected_text(first)} is expected: **{result.verdict}**."
            f" [All numbers]({claim_address(claim.name)})"
        )
        lines.append(wrap(text, "  "))
    return lines


Block = Callable[[Findings], str]
PAGES: dict[Path, dict[str, Block]] = {
    DOCS.parent / "README.md": {"summary": summary_block, "results": readme_block},
    DOCS / "index.md": {"summary": summary_block, "results": home_block},
    DOCS / "results.md": {"summary": summary_block, "results": results_block},
}
"""What is written between the two marks of each block of a page."""


def updated_files() -> dict[Path, str]:
    """The pages and the drawings with the results as measured, by their paths."""
    findings = judge_all_claims()
    files = {}
    for path, blocks in PAGES.items():
        text = path.read_text(encoding="utf-8")
        for name, block in blocks.items():
            mark = re.compile(
                rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.DOTALL
            )
            before, after = mark.split(text)
            text = before + block(findings) + after
        files[path] = text
    for name, drawing in draw_cards(findings).items():
        files[CARDS / f"{name}.svg"] = drawing
    return files


if __name__ == "__main__":
    CARDS.mkdir(exist_ok=True)
    for path, text in updated_files().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(DOCS.parent))
