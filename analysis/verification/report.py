"""The report of a verification: one Markdown file with its pictures beside it, and one page that holds all."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.files import replacing
from analysis.plates.framing import save_small
from analysis.verification import overview
from analysis.verification.contents import document
from analysis.verification.entry import Drawn
from analysis.verification.illustrations import draw
from analysis.verification.judged import About, Judged
from analysis.verification.markdown import markdown
from analysis.verification.page import page
from analysis.verification.study import Study

__all__ = ["About", "write_report"]


def write_report(
    every: Sequence[Judged], about: About, studies: Mapping[str, Study], out: Path, pictures: bool = True
) -> tuple[Path, Path]:
    """Write OUT.md and OUT.html, each whole or not at all, and the pictures in OUT-figures/; gives both paths.

    studies: by their names. pictures: also of the plates whose runs are there; without, none at all.
    Raises RecordingError.
    """
    folder = out.with_name(f"{out.stem}-figures")
    drawn = _pictures(every, about, studies, folder) if pictures else {}
    content = document(every, about, studies, drawn)
    texts = {
        out.with_name(f"{out.stem}.md"): markdown(content, folder.name),
        out.with_name(f"{out.stem}.html"): page(content, folder),
    }
    for path, text in texts.items():
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    first, second = texts
    return first, second


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
