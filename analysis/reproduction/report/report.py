"""The report of a verification: Markdown pages, a summary and one for each paper, with
a folder of pictures."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import jinja2

from analysis.output.files import replace_file
from analysis.reproduction.experiment import Experiment
from analysis.reproduction.figures.register import PAPER_FIGURES
from analysis.reproduction.papers import PAPERS
from analysis.reproduction.report.contents import (
    REPORT_TITLE,
    ReportProvenance,
    build_contents,
)
from analysis.reproduction.report.illustrations import draw_available_figures
from analysis.reproduction.report.strips import number_strip
from analysis.reproduction.results import ClaimResult, as_sentence
from dynamics.errors import RecordingError
from dynamics.settings import SettingsError

STRIPS = "strips-"
"""First letters of the names of the drawings of numbers."""
SYMBOLS = re.compile(r"[\\`*~$|<]|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])|&(?=#?\w+;)")
"""What Markdown would read as markup: not underscores within words, nor brackets that
are not part of a link."""


def paper_pages(out: Path) -> dict[str, Path]:
    """The pages of the papers beside a summary, by the abbreviations of the papers."""
    return {paper: out.with_stem(f"{out.stem}-{paper.lower()}") for paper in PAPERS}


def check_report_path(out: Path) -> None:
    """Check that a report can be written to a path, and create its folder. Raises
    SettingsError, RecordingError."""
    if out.suffix != ".md" or out.is_dir():
        raise SettingsError("out", out, "the name of a file that ends in .md")
    for path in (out, *paper_pages(out).values()):
        if path.exists() and not path.read_text(errors="replace").startswith(
            f"# {REPORT_TITLE}"
        ):
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
    provenance: ReportProvenance,
    experiments: Mapping[str, Experiment],
    out: Path,
    pictures: bool = True,
) -> list[Path]:
    """Write the summary OUT.md, the pages OUT-ca.md and so on of the papers, and
    pictures in OUT-figures/; returns the paths of the pages.

    Existing files are replaced when everything has been drawn and written; pages and
    pictures of an earlier report are removed. experiments: by name. pictures: whether
    to draw the figures whose runs exist. Raises RecordingError."""
    folder = out.with_name(f"{out.stem}-figures")
    pages = paper_pages(out)
    contents = build_contents(results, provenance, experiments)
    contents |= {
        "folder": folder.name if pictures else "",
        "summary": out.name,
        "pages": {paper: page.name for paper, page in pages.items()},
        "pictures": {},
        "strips_prefix": STRIPS,
    }
    with TemporaryDirectory() as name, ExitStack() as replacements:
        drafts = Path(name)
        if pictures:
            contents["pictures"] = draw_available_figures(
                results, provenance.size, experiments, drafts
            )
            draw = template("strips.svg.j2").render
            for row in contents["top"]:
                strips = [strip for part in row.lines if (strip := number_strip(part))]
                drawing = drafts / f"{STRIPS}{row.results[0].claim.name}.svg"
                drawing.write_text(draw(strips=strips), encoding="utf-8")
        paths = [out]
        texts = [template("summary.md.j2").render(contents)]
        for paper, places in contents["groups"]:
            paths.append(pages[paper.short])
            texts.append(
                template("paper.md.j2").render(contents, paper=paper, places=places)
            )
        for path, text in zip(paths, texts, strict=True):
            draft = replacements.enter_context(replace_file(path))
            draft.write_text(text, encoding="utf-8")
        _replace_pictures(drafts, folder)
    for page in pages.values():
        if page not in paths:
            page.unlink(missing_ok=True)
    return paths


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
    return environment.get_template(name)


def escape_markdown(text: str) -> str:
    """Plain text as one line of Markdown, with a backslash before symbols that Markdown
    would interpret within a line.

    >>> print(escape_markdown("f_a * 2 | [1](2)"))
    f_a \\* 2 \\| [1\\](2)
    """
    return SYMBOLS.sub(r"\\\g<0>", " ".join(str(text).split()))


def _replace_pictures(drafts: Path, folder: Path) -> None:
    """Put pictures into a folder in place of those of an earlier report; other files
    remain."""
    names = {picture.name for picture in drafts.iterdir()}
    for name in sorted(names):
        with replace_file(folder / name) as temporary:
            shutil.copyfile(drafts / name, temporary)
    earlier = {f"{figure.name}.png" for figure in PAPER_FIGURES}
    earlier |= {"verdicts.png", "numbers.png"}
    earlier |= {path.name for path in folder.glob(f"{STRIPS}*.svg")}
    for name in earlier - names:
        (folder / name).unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
