"""Plates of CA's particles: figure 5 and appendix D."""

import numpy as np

from analysis.reproduction.figures.figure import Drawn, Material, named
from analysis.reproduction.figures.modular import KINDS, TOKENS, embeddings, end_of, in_the_plane, seeds_of_all, titled
from analysis.reproduction.figures.run_choice import Ends
from analysis.reproduction.figures.settings_line import settings_line
from dynamics.trajectory.reader import settings_of


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
    strengths = [_alignment(each) for each in material.datasets]
    figure, told = seeds_of_all(material, [f"f_a = {each}" for each in strengths])
    rule = f"{told} Particles at the end, {TOKENS}; {KINDS}"
    return Drawn(figure, f"f_a = {', '.join(strengths)}", settings_line(*material.datasets), rule)


def _alignment(trajectory) -> str:
    return f"{settings_of(trajectory).fa:g}"  # type: ignore[attr-defined]
