"""The force audit: how much of the gradient of a network's embeddings do the particle
forces of CA explain?

python -m analysis.audit
python -m analysis.audit RUN.nc [OTHER.nc ...]
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from analysis import forces, output, plots, progress_measures, structures
from analysis.command_line.analysis import ModelAnalysis
from analysis.command_line.analysis_command import command_arguments, measure_files
from analysis.command_line.options import LawOptions, PictureOptions
from analysis.command_line.parsing import run_command
from analysis.command_line.result_files import (
    open_input,
    settings_in_words,
    write_result_and_picture,
)
from analysis.output.tables import Column
from analysis.panels import figure_panels
from dynamics.settings import ModularSettings, SettingsError, check_real
from dynamics.trajectory.selection import Selection

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Audit(LawOptions, ModelAnalysis):
    """Measure how much of the gradient of a network's embeddings is explained by the
    particle forces of CA (section 6), or by those of another law, along a trajectory of
    the network of CA, of a transformer that adds numbers, or of a recorded model."""

    selection: Selection = Selection(frames=41, spacing="early")
    key_fraction: float = 0.02
    """Power of a key frequency in the last logits of a transformer, as a fraction of
    the largest power."""

    title = "The force audit"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real("key_fraction", self.key_fraction, positive=True, up_to=1)

    def measure(self, trajectory: xr.Dataset) -> xr.Dataset:
        runs = self.selection.select_runs(trajectory)
        keys = progress_measures.plane_key_frequencies(runs, self.key_fraction)
        functions = self.model_functions(trajectory)
        return forces.audit_forces(
            runs, self.law_settings, self.selection, keys=keys, model=functions
        )

    def table(self, result: xr.Dataset) -> pd.DataFrame:
        return output.make_table(forces.audit_rows(result))

    def printed_columns(self, result: xr.Dataset) -> Sequence[Column]:
        return forces.audit_columns(result)

    def printed_rows(self, table: pd.DataFrame) -> slice:
        return slice(None)

    def text_below(self, result: xr.Dataset) -> str:
        return "\n" + forces.audit_legend(result)

    def panel_names(self) -> tuple[str, ...]:
        return figure_panels.AUDIT

    def figure(self, result: xr.Dataset, trajectory: xr.Dataset) -> Figure:
        return plots.plot_audit(result, settings_in_words(trajectory))


@dataclasses.dataclass(frozen=True)
class Options(PictureOptions):
    """Measure how much of the gradient of a network's embeddings is explained by the
    particle forces of CA (section 6), or by those of another law, during training. The
    table gives the cosine and R², the weight of each force field, and a baseline with randomly
    permuted (renamed) tokens. Without a trajectory, networks are trained at weight
    decay 0, 0.3, 0.6 and 1, --runs (default: 100) for each. Transformers
    (sims.transformer) are also audited in the planes of their key frequencies.

    Several trajectories are compared in one table and figure, with the settings in
    which they differ: when each run has memorised its training pairs (accuracy above
    .99), at its first recorded frames with a test accuracy of at least .5 and above .9,
    and at its last. This table also has the best pair law (analysis.pair_law).

    A model recorded by dynamics.record needs modulus=N and embedding_gradient=True. The
    forces are summed over all unordered pairs of its N numbers, or over the recorded
    training pairs: variables={"training_pairs": a function of the model that returns an
    array (pair, 2)}."""

    trajectories: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Trajectories of the network of CA, of transformers that add numbers, or of
    recorded models. Default: networks are trained."""
    audit: Audit = dataclasses.field(default_factory=Audit)
    x: str | None = None
    """With several trajectories: the setting on the horizontal axis of the figure.
    Default: attention_rate, or the first in which they differ."""
    seed: int = 0
    """Seed of the first network."""
    epochs: int | None = None
    """Number of training epochs. Default: 2000."""
    out: Path | None = None
    """With trajectories: NetCDF file for the result; the picture is saved beside it.
    Default: TRAJECTORY-audit.nc, or audits.nc for several, in the folder of the first
    trajectory."""
    settings: ModularSettings = dataclasses.field(default_factory=ModularSettings)

    def names_of_panels(self) -> tuple[str, ...]:
        several = len(self.trajectories) > 1
        return figure_panels.AUDITS if several else figure_panels.AUDIT


def main(options: Options) -> None:
    """Audit the trajectories, or train or find the four ensembles of table 1 and audit
    them; print the results."""
    if not options.trajectories:
        audit_trained(options)
        return
    for name in ("seed", "epochs", "settings"):
        if getattr(options, name) != getattr(Options(), name):
            raise SettingsError(
                name,
                getattr(options, name),
                "no value here: no networks are trained",
            )
    if len(options.trajectories) > 1:
        compare_files(options)
        return
    files = {
        field.name: getattr(options, field.name)
        for field in dataclasses.fields(PictureOptions)
    }
    (trajectory,) = options.trajectories
    arguments = command_arguments(Audit)
    measure_files(
        arguments(
            trajectory=trajectory, out=options.out, analysis=options.audit, **files
        )
    )


def audit_trained(options: Options) -> None:
    """Train or find the four ensembles of table 1, and audit them."""
    if options.out is not None:
        raise SettingsError(
            "out", options.out, "no value here: without a trajectory no file is written"
        )
    rows = []
    runs = options.audit.selection.runs or 100
    law = options.audit.law_settings
    ensembles = structures.table_ensembles(
        options.settings, runs, options.seed, options.epochs, options.log
    )
    for settings, trajectory in ensembles:
        audit = forces.audit_forces(trajectory, law, options.audit.selection)
        rows += forces.audit_rows(audit, weight_decay=settings.weight_decay)
    columns = [
        output.Column("weight decay", "weight_decay"),
        *forces.audit_columns(audit),
    ]
    output.output_table(output.make_table(rows), columns, options.csv)
    print("\n" + forces.audit_legend(audit), file=options.log)


def compare_files(options: Options) -> None:
    """Audit several trajectories at the same moments; print one table, write the
    result, draw the figure."""
    paths = options.trajectories
    if len(set(paths)) < len(paths):
        raise SettingsError("trajectories", " ".join(map(str, paths)), "each file once")
    inputs = {
        "result_of": "analysis.audit",
        "trajectories": " ".join(path.name for path in paths),
    }
    out = output.check_result_path(options.out or paths[0].parent / "audits.nc", inputs)
    trajectories = [
        open_input(path, "audit", "analysis.audit", options.log)[0] for path in paths
    ]
    for trajectory in trajectories:
        forces.audited_trajectory(trajectory)
    differing = forces.differing_settings(trajectories)
    if options.x is not None and options.x not in differing:
        raise SettingsError(
            "x",
            options.x,
            " or ".join(differing) or "no value here: no setting differs",
        )
    audits = {}
    law = options.audit.law_settings
    for path, whole in zip(paths, trajectories, strict=True):
        trajectory = options.audit.selection.select_runs(whole)
        moments = progress_measures.moment_frames(trajectory)
        keys = progress_measures.plane_key_frequencies(
            trajectory, options.audit.key_fraction
        )
        audits[str(path)] = forces.audit_moments(trajectory, moments, law, keys)
        whole.close()
    result = forces.combine_audits(audits)
    output.output_table(
        output.make_table(forces.moment_rows(result)),
        forces.moment_columns(result),
        options.csv,
    )
    print("\n" + forces.moment_legend(result), file=options.log)
    result = result.assign_attrs(
        title="The force audit at moments of training", **inputs
    )
    x = options.x or "attention_rate"
    figure = functools.partial(plots.plot_audits, result, x)
    write_result_and_picture(options, result, figure, out)


if __name__ == "__main__":
    run_command(main, Options, "analysis.audit")
