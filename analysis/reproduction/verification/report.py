"""The report of a verification: one Markdown file with its pictures beside it, and one page that holds all."""

import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from analysis.output.files import replacing
from analysis.reproduction.figures.framing import save_small
from analysis.reproduction.figures.register import PLATES
from analysis.reproduction.verification import overview
from analysis.reproduction.verification.claim_results import About, Judged
from analysis.reproduction.verification.contents import document
from analysis.reproduction.verification.entry import Drawn
from analysis.reproduction.verification.experiment import Study
from analysis.reproduction.verification.illustrations import draw
from analysis.reproduction.verification.markdown import markdown
from analysis.reproduction.verification.page import page

__all__ = ["About", "write_report"]


def write_report(
    every: Sequence[Judged], about: About, studies: Mapping[str, Study], out: Path, pictures: bool = True
) -> tuple[Path, Path]:
    """Write OUT.md and OUT.html, and the pictures in OUT-figures/; gives both paths.

    Nothing that is there is touched before all is drawn and written; pictures of a former report are then removed.
    studies: by their names. pictures: also of the plates whose runs are there; without, none at all.
    Raises RecordingError.
    """
    folder = out.with_name(f"{out.stem}-figures")
    first, second = out.with_name(f"{out.stem}.md"), out.with_name(f"{out.stem}.html")
    with TemporaryDirectory() as name, replacing(first) as text, replacing(second) as whole:
        drafts = Path(name)
        with _without_warnings_of_fonts():
            drawn = _pictures(every, about, studies, drafts) if pictures else {}
        content = document(every, about, studies, drawn)
        text.write_text(markdown(content, folder.name), encoding="utf-8")
        whole.write_text(page(content, drafts), encoding="utf-8")
        _swap(drafts, folder)
    return first, second


def _swap(drafts: Path, folder: Path) -> None:
    """Put the pictures of this report in the place of a former one's; files that are no report's stay."""
    new = sorted(drafts.glob("*.png"))
    for each in new:
        with replacing(folder / each.name) as temporary:
            shutil.copyfile(each, temporary)
    former = {overview.VERDICTS, overview.NUMBERS, *(each.name for each in PLATES)} - {each.stem for each in new}
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


def _pictures(every: Sequence[Judged], about: About, studies: Mapping[str, Study], folder: Path) -> dict[str, Drawn]:
    """Draw all pictures, by their names."""
    save_small(overview.verdicts_figure(every), folder / f"{overview.VERDICTS}.png")
    drawn = {overview.VERDICTS: Drawn("bars of as many claims as the table above has", "Claims by paper and verdict.")}
    found = overview.numbers(every)
    if found:
        save_small(overview.numbers_figure(found), folder / f"{overview.NUMBERS}.png")
        shows = f"{len(found)} differences with their intervals; each number stands in the table of all claims"
        drawn[overview.NUMBERS] = Drawn(shows, NUMBERS)
    return drawn | draw(every, about.size, studies, folder)
