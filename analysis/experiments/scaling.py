"""How the formation of circles depends on the number of tokens: finite-size scaling of
its transition.

python -m analysis.paper scaling
python -m analysis.paper scaling --n 7 17 59 --values 1 1.5 2 --runs 100
"""

import dataclasses
import functools
from pathlib import Path
from typing import Literal

from analysis import output, plots, structures
from analysis.command_line.options import PictureOptions
from analysis.command_line.result_files import write_result_and_picture
from analysis.panels import figure_panels
from dynamics.settings import ModularSettings, ParticleSettings, SettingsError

DEFAULT_VALUES = {
    "particles": (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0),
    "modular": (0.1, 0.3, 0.6, 1.0, 1.5, 2.0),
}


@dataclasses.dataclass(frozen=True)
class Options(PictureOptions):
    """Simulate ensembles for several numbers N of tokens and values of the alignment
    constant f_a of particles, or of the weight decay of CA's networks. Print fractions
    of circles, imperfections and times of formation, the transition of each N, and how
    it depends on N. Existing runs are not computed again."""

    system: Literal["particles", "modular"] = "particles"
    """Particles, or CA's networks."""
    n: tuple[int, ...] = (7, 13, 17, 23, 43, 59)
    """Numbers N of tokens. A step of one run of particles takes about 1 ms for N = 59,
    10 ms for 113, 16 ms for 199, 0.5 s for 997."""
    values: tuple[float, ...] | None = None
    """Values of f_a, or of the weight decay of networks. Default: 0.5 0.75 1 1.25 1.5 2
    3, or 0.1 0.3 0.6 1 1.5 2."""
    runs: tuple[int, ...] = (50,)
    """Number of runs at each point, for all N, or one number for each N."""
    seed: int = 0
    """Seed of the first run at each point."""
    length: tuple[int, ...] | None = None
    """Number of steps of particles, or of epochs of networks, for all N, or one number
    for each N. Default: 400 steps, or 2000 epochs."""
    every: int = 10
    """Steps or epochs between recorded frames, in which circles are looked for."""
    step_size: float = 0.003
    """Step size of particles for N = 17; for other N it is multiplied by (17/N)²."""
    finished: bool = False
    """Analyse the points that are finished, and compute none."""
    folder: str = "runs"
    """Folder for the trajectories, SYSTEM-HASH.nc; existing ones are not computed
    again."""
    out: Path | None = None
    """File for the result, with the figure beside it. Default:
    FOLDER/sweep-scaling-SYSTEM-HASH.nc."""
    scheduler: str | None = None
    """Address of a dask scheduler on whose workers to compute, for example
    tcp://127.0.0.1:8786. Default: use this process."""

    def names_of_panels(self) -> tuple[str, ...]:
        return figure_panels.SCALING


def main(options: Options) -> None:
    """Simulate or find all runs; print the tables and what they support, write the
    result, draw the figure."""
    particles = options.system == "particles"
    settings = (
        ParticleSettings(step_size=options.step_size)
        if particles
        else ModularSettings()
    )
    lengths = options.length
    if lengths is None:
        lengths = (400 if particles else settings.default_steps,)
    values = options.values
    if values is None:
        values = DEFAULT_VALUES[options.system]
    designs = structures.plan_scaling(
        settings,
        options.n,
        values,
        options.runs,
        options.seed,
        lengths,
        options.every,
        options.folder,
    )
    attrs = {"result_of": "analysis.scaling"}
    out = output.check_result_path(
        options.out or Path(options.folder) / structures.scaling_file_name(designs),
        attrs,
    )
    computed = 0
    if not options.finished:
        computed = structures.compute_scaling(designs, options.scheduler)
    result = structures.measure_scaling(designs)
    rows = structures.scaling_rows(result)
    points = sum(len(design.points) for design in designs)
    if not rows:
        raise SettingsError(
            "finished",
            f"no finished point in {options.folder}",
            "this option after some are finished",
        )
    print(
        f"points      {len(rows)} of {points} in {options.folder} ({computed}"
        " computed)",
        file=options.log,
    )
    figure = functools.partial(plots.plot_scaling, result)
    write_result_and_picture(options, result.assign_attrs(attrs), figure, out)
    output.output_table(
        output.make_table(rows), structures.scaling_columns(result), options.csv
    )
    transitions = output.make_table(structures.transition_rows(result))
    print(
        "\n" + output.format_table(transitions, structures.TRANSITION_COLUMNS),
        file=options.log,
    )
    print("\n" + structures.scaling_conclusion(result), file=options.log)
