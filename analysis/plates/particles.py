"""Plates of CA's particles: figure 5 and appendix D."""

import numpy as np

from analysis.plates.choice import Ends, runs_of_seeds
from analysis.plates.modular import TOKENS, blocks, embeddings, end_of, in_the_plane, short, titled
from analysis.plates.plate import Drawn, Material, named
from analysis.plates.settings_line import settings_line
from dynamics.trajectory import settings_of


def ca5(material: Material) -> Drawn:
    """A circle, a grid and an imperfect grid."""
    trajectory = material.only
    in_the_plane(trajectory)
    ends = Ends(trajectory)
    kinds = {"Left": ends.circle_run(), "Middle": ends.grid_run(), "Right": ends.imperfect_run()}
    runs = [chosen.run for chosen in kinds.values()]
    figure = embeddings(np.stack([end_of(trajectory, r) for r in runs]), [titled(trajectory, r) for r in runs], 3, 3.2)
    rule = " ".join(f"{where}: {chosen.why}." for where, chosen in kinds.items())
    here = f"{', '.join(named(trajectory, run) for run in runs)}, f_a = {_alignment(trajectory)}"
    return Drawn(figure, here, settings_line(trajectory), f"{rule} Particles at the end, {TOKENS}.")


def ca_d(material: Material) -> Drawn:
    """Twenty arrangements for each of three strengths of alignment."""
    rows, titles, words, told = [], [], [], ""
    for trajectory in material.datasets:
        in_the_plane(trajectory)
        runs, told = runs_of_seeds(trajectory)
        rows.append([end_of(trajectory, run) for run in runs])
        titles.append([short(trajectory, run) for run in runs])
        words.append(f"f_a = {_alignment(trajectory)}")
    rule = f"Each block: {told}. Particles at the end, {TOKENS}; ○ is a circle by algorithm 1, a number counts the "
    rule += "imperfections of others."
    return Drawn(
        blocks(rows, titles, words),
        f"f_a = {', '.join(word[6:] for word in words)}",
        settings_line(*material.datasets),
        rule,
    )


def _alignment(trajectory) -> str:
    return f"{settings_of(trajectory).fa:g}"  # type: ignore[attr-defined]
