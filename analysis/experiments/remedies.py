"""Interventions against loss spikes: runs trained again with one setting changed (VC
section 4.3).

python -m analysis.paper remedies RUN.nc
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from analysis import plots, transitions
from analysis.command_line.analysis import Analysis
from analysis.command_line.analysis_command import command_arguments, measure_files
from analysis.output.tables import Column
from analysis.panels import figure_panels
from analysis.transitions.detection import DetectionConfig

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

LEGEND = """per 1000 epochs: number of spikes after the escape, divided by the epochs \
after it, over all runs. An
intervention that prevents learning lowers the number of spikes per run, but not this \
rate
change: difference between the same runs with and without the intervention, with 95% \
intervals over runs (for rates by
the jackknife). p: McNemar's test of the hypothesis that equally many runs rise above \
.98 as fall below it"""


@dataclasses.dataclass(frozen=True)
class Remedies(Analysis):
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

    program = "analysis.remedies"
    title = "Remedies of loss spikes"
    columns = (
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
    legend = LEGEND
    diverged = ""

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        runs = self.selection.select_whole_runs(trajectory)
        settings = transitions.check_complete_ensemble(runs)
        ensembles = {transitions.UNCHANGED: runs}
        changes = transitions.intervention_settings(
            settings, self.hidden, self.assembler_decays
        )
        for name, changed in changes.items():
            path, ensembles[name] = transitions.train_intervention(runs, changed)
            self.print_progress(f"{name:<11} {path}")
        result = transitions.compare_interventions(ensembles, self.detection)
        return result.assign_attrs(dataclasses.asdict(self.detection))

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        return transitions.intervention_table(result)

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.INTERVENTIONS

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        return plots.plot_interventions(result)


Options = command_arguments(Remedies)
main = measure_files
