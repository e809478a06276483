"""The report of a verification: a Markdown file with a folder of pictures, and one HTML
page that contains all."""

import base64
import functools
import json
import os
import re
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jinja2
import xarray as xr

from analysis.output.files import replace_file
from analysis.reproduction.figures.register import PAPER_FIGURES
from analysis.reproduction.report.illustrations import draw_available_figures
from analysis.reproduction.report.view import REPORT_TITLE, build_view
from analysis.reproduction.verification.evidence import measurement_provenance
from analysis.reproduction.verification.experiment import Experiment, Size
from analysis.reproduction.verification.results import ClaimResult, ReportProvenance
from analysis.reproduction.verification.schedule import ScheduledExperiment
from dynamics.errors import RecordingError
from dynamics.settings import SettingsError

STRIPS = "strips-"
"""First letters of the names of the drawings of numbers."""
SYMBOLS = re.compile(r"[\\`*~$|<]|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])|&(?=#?\w+;)")
"""What Markdown would read as markup: not underscores within words, nor brackets that
are not part of a link."""


def check_report_path(out: Path) -> None:
    """Check that a report can be written to a path, and create its folder. Raises
    SettingsError, RecordingError."""
    if out.suffix != ".md" or out.is_dir():
        raise SettingsError(
            "out",
            out,
            "the name of a file that ends in .md; the page is written beside it as"
            " .html",
        )
    if out.exists() and not out.read_text(errors="replace").startswith(
        f"# {REPORT_TITLE}"
    ):
        raise SettingsError(
            "out", f"{out}, which is something else", "a new file, or an earlier report"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(out.parent, os.W_OK):
        raise RecordingError(f"{out.parent}: no files can be written there")


def report_provenance(
    evidence: Mapping[str, xr.Dataset],
    steps: Sequence[ScheduledExperiment],
    size: Size,
    device: str,
) -> ReportProvenance:
    """When, on which machine and with which versions the evidence was measured, and how
    long that took."""
    attributes = [value.attrs for value in evidence.values()] or [
        measurement_provenance(device)
    ]
    newest = max(attributes, key=lambda each: each["created_at"])
    environment = json.loads(newest["package_versions"])
    for name, word in (
        ("cores", "cores"),
        ("device", "device"),
        ("git_commit", "commit"),
    ):
        environment[word] = ", ".join(
            sorted({str(attribute[name]) for attribute in attributes})
        )  # of all evidence
    needs = {need for step in steps for need in step.experiment.ensembles(step.params)}
    return ReportProvenance(
        size=size,
        created_at=newest["created_at"],
        environment=environment,
        seconds={
            name: float(value.attrs["seconds"]) for name, value in evidence.items()
        },
        runs=sum(need.runs for need in needs),
    )


def write_report(
    claim_results: Sequence[ClaimResult],
    provenance: ReportProvenance,
    experiments: Mapping[str, Experiment],
    out: Path,
    pictures: bool = True,
) -> tuple[Path, Path]:
    """Write OUT.md and OUT.html, and pictures in OUT-figures/; returns both paths.

    Existing files are replaced when everything has been drawn and written; pictures of
    an earlier report are removed. experiments: by name. pictures: whether to draw the
    figures whose runs exist. Raises RecordingError."""
    folder = out.with_name(f"{out.stem}-figures")
    text_path, page_path = (
        out.with_name(f"{out.stem}.md"),
        out.with_name(f"{out.stem}.html"),
    )
    with (
        TemporaryDirectory() as name,
        replace_file(text_path) as text,
        replace_file(page_path) as page,
    ):
        drafts = Path(name)
        drawn = (
            draw_available_figures(claim_results, provenance.size, experiments, drafts)
            if pictures
            else {}
        )
        view = build_view(claim_results, provenance, experiments, drawn)
        if pictures:
            for row in view["top"]:
                strips = [part.strip for _, part in row.lines if part.strip]
                drawing = template("strips.svg.j2", drafts).module.draw(strips)  # type: ignore[attr-defined]
                (drafts / f"{STRIPS}{row.claims[0].claim.name}.svg").write_text(
                    drawing, encoding="utf-8"
                )
        view |= {"folder": folder.name if pictures else "", "strips_prefix": STRIPS}
        text.write_text(template("report.md.j2", drafts).render(view), encoding="utf-8")
        page.write_text(
            template("report.html.j2", drafts).render(view), encoding="utf-8"
        )
        _replace_pictures(drafts, folder)
    return text_path, page_path


def template(name: str, folder: Path) -> jinja2.Template:
    """A template of this package; pictures that it embeds are read from a folder."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("analysis.reproduction.report", "."),
        autoescape=not name.endswith(".md.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = escape_markdown
    environment.globals["embed_png"] = functools.partial(embed_png, folder)
    return environment.get_template(name)


def escape_markdown(text: str) -> str:
    """Plain text as one line of Markdown, with a backslash before symbols that Markdown
    would interpret within a line.

    >>> print(escape_markdown("f_a * 2 | [1](2)"))
    f_a \\* 2 \\| [1\\](2)
    """
    return SYMBOLS.sub(r"\\\g<0>", " ".join(str(text).split()))


def embed_png(folder: Path, name: str) -> dict[str, Any]:
    """A picture for the page: its size in pixels and its content as an address."""
    png = (folder / f"{name}.png").read_bytes()
    width, height = struct.unpack(">II", png[16:24])
    return {
        "width": width,
        "height": height,
        "address": f"data:image/png;base64,{base64.b64encode(png).decode()}",
    }


def _replace_pictures(drafts: Path, folder: Path) -> None:
    """Put pictures into a folder in place of those of an earlier report; other files
    remain."""
    new = sorted(drafts.iterdir())
    for item in new:
        with replace_file(folder / item.name) as temporary:
            shutil.copyfile(item, temporary)
    earlier = [
        folder / f"{name}.png"
        for name in (
            "verdicts",
            "numbers",
            *(paper_figure.name for paper_figure in PAPER_FIGURES),
        )
    ]
    for path in (*earlier, *folder.glob(f"{STRIPS}*.svg")):
        if path.name not in {item.name for item in new}:
            path.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
