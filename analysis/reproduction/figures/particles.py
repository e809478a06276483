"""Figures of CA's particles: figure 5 and appendix D."""

from analysis.reproduction.figures.figure import DrawnFigure, FigureData, name_run
from analysis.reproduction.figures.modular import (
    KINDS_NOTE,
    TOKENS_NOTE,
    check_two_axes,
    plot_embedding_panels,
    runs_by_trajectory,
)
from analysis.reproduction.figures.run_choice import EndStates
from dynamics.trajectory.schema import read_settings


def ca5(data: FigureData) -> DrawnFigure:
    """A circle, a grid and an imperfect grid."""
    trajectory = data.only
    check_two_axes(trajectory)
    ends = EndStates(trajectory)
    kinds = {"Left": ends.circle_run(), "Middle": ends.grid_run(), "Right": ends.imperfect_run()}
    runs = [chosen.run for chosen in kinds.values()]
    figure = plot_embedding_panels(trajectory, runs, 3, 3.2)
    rule = " ".join(f"{where}: {chosen.why}." for where, chosen in kinds.items())
    here = f"{', '.join(name_run(trajectory, run) for run in runs)}, f_a = {_alignment(trajectory)}"
    return DrawnFigure(figure, here, f"{rule} Particles at the end, {TOKENS_NOTE}.")


def ca_d(data: FigureData) -> DrawnFigure:
    """Twenty arrangements for each of three strengths of alignment."""
    strengths = [_alignment(each) for each in data.datasets]
    figure, told = runs_by_trajectory(data, [f"f_a = {each}" for each in strengths])
    rule = f"{told} Particles at the end, {TOKENS_NOTE}; {KINDS_NOTE}"
    return DrawnFigure(figure, f"f_a = {', '.join(strengths)}", rule)


def _alignment(trajectory) -> str:
    return f"{read_settings(trajectory).fa:g}"  # type: ignore[attr-defined]
