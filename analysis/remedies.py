"""Interventions against loss spikes: the runs of a trajectory trained again with one
setting changed (VC section 4.3).

python -m analysis.remedies RUN.nc
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, TextIO

from analysis import plots, transitions
from analysis.command_line.record import (
    Analysis,
    MeasuredTrajectory,
    Report,
    TrajectoryOptions,
)
from analysis.output.tables import Column
from analysis.transitions.detection import DetectionConfig
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import xarray as xr

COLUMNS = (
    Column("remedy", "remedy"),
    Column("runs", "runs"),
    Column("escaped", "escaped"),
    Column("spikes a run", "spikes", digits=2, interval="half-width"),
    Column("change", "spikes_gain", digits=2, interval="bounds"),
    Column("per 1000 epochs", "rate", digits=2, interval="half-width"),
    Column("change", "rate_gain", digits=2, interval="bounds"),
    Column("test %", "test", digits=1, interval="half-width", scale=100),
    Column("change", "test_gain", digits=1, interval="bounds", scale=100),
    Column("> .98", "successes"),
    Column("p", "p_value", text=lambda p: "-" if math.isnan(p) else f"{p:.2g}"),
)

LEGEND = """per 1000 epochs: number of spikes after the escape, divided by the epochs \
after it, over all runs. An
intervention that prevents learning lowers the number of spikes per run, but not this \
rate
change: difference between the same runs with and without the intervention, with 95% \
intervals over runs (for rates by
the jackknife). p: McNemar's test of the hypothesis that equally many runs rise above \
.98 as fall below it"""


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """Train the runs of a trajectory again with one change, each with the same initial
    weights, data and batches. The changes are a norm that is smooth at the origin, a
    wider MLP, and weight decay of the assemblers (VC's term for the output weights of
    the MLP). The spikes of the training loss and the final accuracy are compared run by
    run (VC section 4.3). The trajectories are stored in runs/; existing ones are not
    computed again."""

    hidden: int = 128
    """Width of the wider MLP. Its first units have the same initial weights as the
    original MLP, but all initial assemblers are divided by the square root of the ratio
    of the widths."""
    assembler_decays: tuple[float, ...] = (0.01, 0.1)
    """Weight decays of the assemblers, decoupled from the gradient as in AdamW."""
    detection: DetectionConfig = dataclasses.field(default_factory=DetectionConfig)


def measure(
    trajectory: xr.Dataset,
    selection: Selection,
    hidden: int,
    assembler_decays: tuple[float, ...],
    detection: DetectionConfig,
    log: TextIO,
) -> xr.Dataset:
    settings = transitions.check_complete_ensemble(trajectory)
    ensembles = {transitions.UNCHANGED: trajectory}
    changes = transitions.intervention_settings(settings, hidden, assembler_decays)
    for name, changed in changes.items():
        path, ensembles[name] = transitions.train_intervention(trajectory, changed)
        print(f"{name:<11} {path}", file=log)
    result = transitions.compare_interventions(ensembles, detection)
    return result.assign_attrs(dataclasses.asdict(detection))


def remedies_report(measured: MeasuredTrajectory) -> Report:
    result = measured.result
    return Report(
        transitions.intervention_table(result),
        COLUMNS,
        LEGEND,
        figure=lambda: plots.plot_interventions(result),
    )


ANALYSIS = Analysis(
    name="remedies",
    title="Remedies of loss spikes",
    measure=measure,
    report=remedies_report,
    options=Options,
    diverged="",
    files_first=True,
)

if __name__ == "__main__":
    ANALYSIS.run_command()
