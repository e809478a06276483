"""Write the main results into README.md, docs/index.md and docs/results.md, with the
numbers of the stored measurements.

python docs/write_results.py"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

from analysis import reproduction
from analysis.reproduction.report.headlines import (
    HEADLINES,
    Headline,
    headline_claims,
    headline_text,
)
from analysis.reproduction.results import ClaimResult

DOCS = Path(__file__).parent
BLOCK = re.compile(
    r"(?<=<!-- results -->\n)(.*?)(?=<!-- end of results -->)", re.DOTALL
)


def judge_headline_claims() -> list[ClaimResult]:
    """The results of the claims that the headlines quote, from docs/evidence."""
    claims = reproduction.select_claims(sorted(headline_claims()))
    runner = reproduction.Runner(sys.stderr, "cpu", None, DOCS / "evidence")
    experiments = reproduction.required_experiments(claims)
    size = reproduction.Size.DEFAULT
    steps = reproduction.evidence.schedule_experiments(experiments, size, runner)
    evidence = reproduction.evidence.gather_evidence(steps, runner)
    results = []
    for claim in claims:
        experiment = reproduction.EXPERIMENT_OF_CLAIM[claim.name]
        measured = evidence.get(experiment.name)
        results.append(reproduction.judge_claim(claim, experiment, measured, size))
    return results


def claim_link(headline: Headline, folder: str) -> str:
    """A link to the claim in the report."""
    page = f"report-{headline.claim.split('.')[0].lower()}.md"
    return f"[{headline.claim}]({folder}{page}#{headline.claim})"


def wrap(text: str, indent: str = "") -> str:
    """Text in lines of the pages' width; links are not broken."""
    return textwrap.fill(
        text,
        130,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def readme_block(results: list[ClaimResult]) -> str:
    """The results as a list, with the first picture."""
    first, *_ = HEADLINES
    lines = [f"![{first.shows}](docs/{first.picture})", ""]
    for headline in HEADLINES:
        text = headline_text(headline, results)
        link = claim_link(headline, "docs/")
        lines.append(wrap(f"- **{headline.title}.** {text} {link}", "  "))
    return "\n".join([*lines, ""])


def home_block(results: list[ClaimResult]) -> str:
    """The results as cards with pictures."""
    lines = ["::::{grid} 1 2 2 3", ":gutter: 3", ""]
    for headline in HEADLINES:
        lines += [
            f":::{{grid-item-card}} {headline.title}",
            f":img-top: {headline.picture}",
            f":img-alt: {headline.shows}",
            "",
            wrap(headline_text(headline, results)),
            claim_link(headline, ""),
            ":::",
        ]
    return "\n".join([*lines, "::::", ""])


def results_block(results: list[ClaimResult]) -> str:
    """The results as sections of a page."""
    lines = []
    for headline in HEADLINES:
        lines += [
            f"## {headline.title}",
            "",
            wrap(headline_text(headline, results)),
            f"The claim with all its numbers: {claim_link(headline, '')}.",
            "",
            f"![{headline.shows}]({headline.picture})",
            "",
        ]
    return "\n".join(lines)


PAGES = {
    DOCS.parent / "README.md": readme_block,
    DOCS / "index.md": home_block,
    DOCS / "results.md": results_block,
}
"""What is written between the two marks of each page."""


def updated_pages() -> dict[Path, str]:
    """The pages with the results as measured, by their paths."""
    results = judge_headline_claims()
    pages = {}
    for path, block in PAGES.items():
        before, _, after = BLOCK.split(path.read_text(encoding="utf-8"))
        pages[path] = before + block(results) + after
    return pages


if __name__ == "__main__":
    for path, text in updated_pages().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(DOCS.parent))
