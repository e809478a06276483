"""The report of a verification: one Markdown file with its pictures beside it, and one page that holds all."""

import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import xarray as xr

from analysis.output.files import replace_file
from analysis.reproduction.figures.framing import save_small_png
from analysis.reproduction.figures.register import PAPER_FIGURES
from analysis.reproduction.report import overview
from analysis.reproduction.report.contents import REPORT_TITLE, build_report
from analysis.reproduction.report.entry import ReportPicture
from analysis.reproduction.report.illustrations import draw_available_figures
from analysis.reproduction.report.markdown import render_markdown
from analysis.reproduction.report.page import render_html
from analysis.reproduction.verification.evidence import measurement_provenance
from analysis.reproduction.verification.experiment import Experiment, Size
from analysis.reproduction.verification.results import ClaimResult, ReportProvenance
from analysis.reproduction.verification.schedule import ScheduledExperiment
from dynamics.errors import RecordingError
from dynamics.settings import SettingsError


def check_report_path(out: Path) -> None:
    """Check that a report can be written to a path, and create its folder. Raises SettingsError, RecordingError."""
    if out.suffix != ".md" or out.is_dir():
        raise SettingsError("out", out, "the name of a file that ends in .md; the page lies beside it as .html")
    if out.exists() and not out.read_text(errors="replace").startswith(f"# {REPORT_TITLE}"):
        raise SettingsError("out", f"{out}, which is something else", "a new file, or an earlier report")
    out.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(out.parent, os.W_OK):
        raise RecordingError(f"{out.parent}: no files can be written there")


def report_provenance(
    evidence: Mapping[str, xr.Dataset], steps: Sequence[ScheduledExperiment], size: Size, device: str
) -> ReportProvenance:
    """When, on which machine and with which versions the evidence was measured, and how long that took."""
    attributes = [each.attrs for each in evidence.values()] or [measurement_provenance(device)]
    newest = max(attributes, key=lambda each: each["created_at"])
    environment = json.loads(newest["package_versions"])
    for name, word in (("cores", "cores"), ("device", "device"), ("git_commit", "commit")):
        environment[word] = ", ".join(sorted({str(each[name]) for each in attributes}))  # of all that was measured
    needs = {need: None for step in steps for need in step.experiment.ensembles(step.params)}
    return ReportProvenance(
        size=size,
        created_at=newest["created_at"],
        environment=environment,
        seconds=sum(float(each.attrs["seconds"]) for each in evidence.values()),
        runs=sum(need.runs for need in needs),
    )


def write_report(
    every: Sequence[ClaimResult],
    about: ReportProvenance,
    studies: Mapping[str, Experiment],
    out: Path,
    pictures: bool = True,
) -> tuple[Path, Path]:
    """Write OUT.md and OUT.html, and the pictures in OUT-figures/; gives both paths.

    Nothing that is there is touched before all is drawn and written; pictures of a former report are then removed.
    studies: by their names. pictures: also of the figures whose runs are there; without, none at all.
    Raises RecordingError.
    """
    folder = out.with_name(f"{out.stem}-figures")
    first, second = out.with_name(f"{out.stem}.md"), out.with_name(f"{out.stem}.html")
    with TemporaryDirectory() as name, replace_file(first) as text, replace_file(second) as whole:
        drafts = Path(name)
        with _without_warnings_of_fonts():
            drawn = _pictures(every, about, studies, drafts) if pictures else {}
        content = build_report(every, about, studies, drawn)
        text.write_text(render_markdown(content, folder.name), encoding="utf-8")
        whole.write_text(render_html(content, drafts), encoding="utf-8")
        _swap(drafts, folder)
    return first, second


def _swap(drafts: Path, folder: Path) -> None:
    """Put the pictures of this report in the place of a former one's; files that are no report's stay."""
    new = sorted(drafts.glob("*.png"))
    for each in new:
        with replace_file(folder / each.name) as temporary:
            shutil.copyfile(each, temporary)
    former = {overview.VERDICTS_PICTURE, overview.NUMBERS_PICTURE, *(each.name for each in PAPER_FIGURES)} - {
        each.stem for each in new
    }
    for name in former:
        (folder / f"{name}.png").unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


@contextmanager
def _without_warnings_of_fonts() -> Iterator[None]:
    """Without a line on every font of matplotlib's that a system has left out; others take its place."""
    logger = logging.getLogger("matplotlib.font_manager")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


NUMBERS = (
    "Every number that is compared with one that a paper prints: ours less the paper's, with the 95% interval of the "
    "difference, in units of the margin that was fixed for it. The band is the margin; where a value or an interval "
    "goes on beyond the edge, an arrow says so."
)


def _pictures(
    every: Sequence[ClaimResult], about: ReportProvenance, studies: Mapping[str, Experiment], folder: Path
) -> dict[str, ReportPicture]:
    """Draw all pictures, by their names."""
    save_small_png(overview.plot_verdict_counts(every), folder / f"{overview.VERDICTS_PICTURE}.png")
    drawn = {
        overview.VERDICTS_PICTURE: ReportPicture(
            "bars of as many claims as the table above has", "Claims by paper and verdict."
        )
    }
    found = overview.compared_numbers(every)
    if found:
        save_small_png(overview.plot_compared_numbers(found), folder / f"{overview.NUMBERS_PICTURE}.png")
        shows = f"{len(found)} differences with their intervals; each number stands in the table of all claims"
        drawn[overview.NUMBERS_PICTURE] = ReportPicture(shows, NUMBERS)
    return drawn | draw_available_figures(every, about.size, studies, folder)
