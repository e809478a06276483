"""The report of a verification: Markdown pages, a summary and one for each paper, with
a folder of pictures."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import jinja2
import xarray as xr

from analysis.output.counts import number_in_words
from analysis.output.files import replace_file
from analysis.reproduction import results as claim_results
from analysis.reproduction.claim import Verdict
from analysis.reproduction.evidence import (
    ScheduledExperiment,
    format_duration,
    measurement_provenance,
)
from analysis.reproduction.experiment import Experiment, Size
from analysis.reproduction.figures.register import PAPER_FIGURES
from analysis.reproduction.papers import PAPERS, Paper, count_papers
from analysis.reproduction.report import illustrations
from analysis.reproduction.report.markdown import escape_markdown
from analysis.reproduction.report.strips import number_strip
from analysis.reproduction.results import ClaimResult, as_sentence
from dynamics.errors import RecordingError
from dynamics.settings import SettingsError

REPORT_TITLE = "Claims"
EARLIER_TITLE = "Reproduction of papers on training dynamics"
STRIPS = "strips-"
"""First letters of the names of the drawings of numbers."""
SIZES = {
    Size.QUICK: "small ensembles, with which much remains open",
    Size.DEFAULT: "as many as the papers have, or fewer where the table of experiments"
    " says so",
    Size.FULL: "as many as the papers have",
}
"""The sizes in words."""
CONCLUSIONS = {
    "Does not hold": (Verdict.DIFFERS, Verdict.CONTRADICTED),
    "Open": (Verdict.OPEN,),
    "Holds": (Verdict.AGREES, Verdict.HOLDS),
}
"""Headings of the summary's lists of main claims, and the verdicts of the claims in each
list."""
COUNTED = (
    Verdict.AGREES,
    Verdict.HOLDS,
    Verdict.DIFFERS,
    Verdict.CONTRADICTED,
    Verdict.OPEN,
)
"""Columns of the table that counts the claims by verdict."""


class ExperimentRow(NamedTuple):
    """A row of the table of experiments."""

    experiment: Experiment
    params: str
    reduced: str
    time: str


def paper_pages(out: Path) -> dict[str, Path]:
    """The pages of the papers beside a summary, by the abbreviations of the papers."""
    return {paper: out.with_stem(f"{out.stem}-{paper.lower()}") for paper in PAPERS}


def check_report_path(out: Path) -> None:
    """Check that a report can be written to a path, and create its folder. Raises
    SettingsError, RecordingError."""
    if out.suffix != ".md" or out.is_dir():
        raise SettingsError("out", out, "the name of a file that ends in .md")
    for path in (out, *paper_pages(out).values()):
        titles = (f"# {REPORT_TITLE}", f"# {EARLIER_TITLE}")
        if path.exists() and not path.read_text("utf-8", "replace").startswith(titles):
            raise SettingsError(
                "out",
                f"{path}, which is something else",
                "a new file, or an earlier report",
            )
    out.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(out.parent, os.W_OK):
        raise RecordingError(f"{out.parent}: no files can be written there")


def write_report(
    results: Sequence[ClaimResult],
    evidence: Mapping[str, xr.Dataset],
    steps: Sequence[ScheduledExperiment],
    size: Size,
    device: str,
    out: Path,
    pictures: bool = True,
) -> list[Path]:
    """Write the summary OUT.md, the pages OUT-ca.md and so on of the papers, and
    pictures in OUT-figures/; returns the paths of the pages.

    Existing files are replaced when everything has been drawn and written; pages and
    pictures of an earlier report are removed. evidence: by experiment. pictures:
    whether to draw the figures whose runs exist. Raises RecordingError."""
    folder = out.with_name(f"{out.stem}-figures")
    pages = paper_pages(out)
    papers = _papers_of(results)
    contents = {
        "title": REPORT_TITLE,
        "results": results,
        "papers": papers,
        "conclusions": conclusions(results),
        "counted": COUNTED,
        "counts": {paper: verdict_counts(results, paper) for paper in papers},
        "count_of_papers": paper_words(papers),
        "versions": later_versions(papers),
        "size": size,
        "size_text": SIZES[size],
        "experiments": experiment_rows(evidence, steps),
        "folder": folder.name if pictures else "",
        "summary": out.name,
        "pages": {paper: page.name for paper, page in pages.items()},
        "pictures": {},
        "strips_prefix": STRIPS,
        **report_provenance(evidence, steps, device),
    }
    with TemporaryDirectory() as name, ExitStack() as replacements:
        drafts = Path(name)
        if pictures:
            contents["pictures"] = _draw_figures(results, size, pages, folder, drafts)
            _draw_strips(results, drafts)
        paths = [out]
        texts = [template("summary.md.j2").render(contents)]
        for paper in papers:
            of_paper = [item for item in results if item.claim.paper == paper.short]
            page = template("paper.md.j2")
            paths.append(pages[paper.short])
            texts.append(page.render({**contents, "results": of_paper, "paper": paper}))
        for path, text in zip(paths, texts, strict=True):
            draft = replacements.enter_context(replace_file(path))
            draft.write_text(text, encoding="utf-8")
        _replace_pictures(drafts, folder, contents["pictures"])
    for page_path in pages.values():
        if page_path not in paths:
            page_path.unlink(missing_ok=True)
    return paths


def _papers_of(results: Sequence[ClaimResult]) -> list[Paper]:
    names = {result.claim.paper for result in results}
    return [paper for paper in PAPERS.values() if paper.short in names]


def paper_words(papers: Sequence[Paper]) -> str:
    """How many papers there are, in words."""
    count = count_papers(papers)
    words = f"{number_in_words(count)} paper{'s' * (count != 1)}"
    return f"{words}, one of them in two versions," if later_versions(papers) else words


def later_versions(papers: Sequence[Paper]) -> dict[str, str]:
    """The later version of a paper with the same address, and this paper, by their
    abbreviations."""
    first: dict[str, str] = {}
    for paper in papers:
        first.setdefault(paper.address, paper.short)
    return {
        paper.short: first[paper.address]
        for paper in papers
        if paper.address and first[paper.address] != paper.short
    }


def verdict_counts(results: Sequence[ClaimResult], paper: Paper) -> list[int]:
    """The number of a paper's claims with each verdict of `COUNTED`."""
    verdicts = [item.verdict for item in results if item.claim.paper == paper.short]
    return [verdicts.count(verdict) for verdict in COUNTED]


def conclusions(results: Sequence[ClaimResult]) -> dict[str, list[ClaimResult]]:
    """The main claims that do not hold, that are open, and that hold."""
    parts = {
        words: [
            item for item in results if item.claim.summary and item.verdict in verdicts
        ]
        for words, verdicts in CONCLUSIONS.items()
    }
    return {words: items for words, items in parts.items() if items}


def experiment_rows(
    evidence: Mapping[str, xr.Dataset], steps: Sequence[ScheduledExperiment]
) -> list[ExperimentRow]:
    """The experiments, each with its parameters, how they are reduced, and its time."""
    rows = []
    for step in steps:
        params = ", ".join(
            f"{name.replace('_', ' ')} {value}" for name, value in step.params.items()
        )
        seconds = float(evidence[step.experiment.name].attrs["seconds"])
        row = ExperimentRow(
            step.experiment,
            params.replace("'", ""),
            step.sizing.reduced,
            format_duration(seconds),
        )
        rows.append(row)
    return rows


def report_provenance(
    evidence: Mapping[str, xr.Dataset],
    steps: Sequence[ScheduledExperiment],
    device: str,
) -> dict[str, Any]:
    """When, for how long, on which machine and with which versions the evidence was
    measured, and of how many runs it is."""
    attributes = [dataset.attrs for dataset in evidence.values()]
    attributes = attributes or [measurement_provenance(device)]
    newest = max(attributes, key=lambda origin: origin["created_at"])
    environment = json.loads(newest["package_versions"])
    words = {"cores": "cores", "device": "device", "git_commit": "commit"}
    for name, word in words.items():
        values = {str(origin[name]) for origin in attributes}  # of all evidence
        environment[word] = ", ".join(sorted(values))
    needs = {need for step in steps for need in step.experiment.ensembles(step.params)}
    date = datetime.fromisoformat(newest["created_at"])
    return {
        "date": f"{date:%Y-%m-%d, %H:%M %Z}",
        "time": format_duration(
            sum(float(item.get("seconds", 0)) for item in attributes)
        ),
        "environment": ", ".join(
            f"{name} {value}" for name, value in environment.items()
        ),
        "runs": sum(need.runs for need in needs),
    }


def _draw_figures(
    results: Sequence[ClaimResult],
    size: Size,
    pages: Mapping[str, Path],
    folder: Path,
    drafts: Path,
) -> dict[str, illustrations.Picture]:
    """The figures whose runs exist, drawn anew, and those of an earlier report."""
    claims = illustrations.first_claims(results, size)
    earlier = illustrations.read_earlier_pictures(claims, [*pages.values()], folder)
    drawn = illustrations.draw_available_figures(claims, results, size, drafts)
    return earlier | drawn


def _draw_strips(results: Sequence[ClaimResult], drafts: Path) -> None:
    """The drawing of the first number of each claim."""
    draw = template("strips.svg.j2").render
    for result in results:
        strip = number_strip(result.numbers[0]) if result.numbers else None
        if strip:
            drawing = drafts / f"{STRIPS}{result.claim.name}.svg"
            drawing.write_text(draw(strip=strip), encoding="utf-8")


def template(name: str) -> jinja2.Template:
    """A template of this package."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("analysis.reproduction.report", "."),
        autoescape=name.endswith(".svg.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = escape_markdown
    environment.filters["sentence"] = lambda text: escape_markdown(as_sentence(text))
    environment.filters["number"] = claim_results.number_text
    environment.filters["expected"] = claim_results.expected_text
    environment.filters["difference"] = claim_results.difference_text
    environment.filters["cases"] = claim_results.cases_text
    return environment.get_template(name)


def _replace_pictures(
    drafts: Path, folder: Path, pictures: Mapping[str, illustrations.Picture]
) -> None:
    """Put pictures into a folder in place of those of an earlier report which are not
    shown any more; other files remain."""
    names = {picture.name for picture in drafts.iterdir()}
    for name in sorted(names):
        with replace_file(folder / name) as temporary:
            shutil.copyfile(drafts / name, temporary)
    earlier = {f"{figure.name}.png" for figure in PAPER_FIGURES}
    earlier |= {path.name for path in folder.glob(f"{STRIPS}*.svg")}
    for name in earlier - names - {f"{name}.png" for name in pictures}:
        (folder / name).unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
