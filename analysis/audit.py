"""The force audit: how much of the gradient of a network's embeddings do the particle forces of CA explain?

python -m analysis.audit
python -m analysis.audit RUN.nc
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import tyro

from analysis import forces, output, plots, progress_measures, reproduction
from analysis.command_line.options import PictureOptions
from analysis.command_line.parsing import run_command
from analysis.command_line.reading import TrajectoryOptions, open_input, write_result_and_picture
from dynamics.settings import ModularSettings, ParticleSettings, SettingsError, TransformerSettings


@dataclasses.dataclass(frozen=True)
class Options(PictureOptions):
    """Measure how much of the gradient of a network's embeddings is explained by the particle forces of CA (section 6)
    during training. The table gives the cosine and R², the weight of each of the four force fields, and a baseline with
    randomly permuted (renamed) tokens. Without a trajectory, networks are trained at weight decay 0, 0.3, 0.6 and 1.
    Transformers (sims.transformer) are also audited in the planes of their key frequencies.

    A model recorded by dynamics.record needs modulus=N and embedding_gradient=True. The forces are summed over all
    unordered pairs of its N numbers, or over the recorded training pairs: variables={"training_pairs": a function of
    the model that returns an array (pair, 2)}."""

    trajectory: tyro.conf.Positional[Path | None] = None
    """Trajectory of the network of CA, of a transformer that adds numbers, or of a recorded model. Default: networks
    are trained."""
    frames: int = 41
    """Number of audited frames, denser at the start."""
    runs: int = 100
    """Number of networks for each weight decay."""
    seed: int = 0
    """Seed of the first network."""
    epochs: int | None = None
    """Number of training epochs. Default: 2000."""
    fa: float = ParticleSettings.fa
    """Alignment constant f_a of the particle forces; it is not used in the fit of the four fields."""
    out: Path | None = None
    """With a trajectory: NetCDF file for the result; the picture is saved beside it.
    Default: TRAJECTORY-audit.nc in the folder of the trajectory."""
    settings: ModularSettings = dataclasses.field(default_factory=ModularSettings)


def main(options: Options) -> None:
    """Audit the trajectory, or train or find the four ensembles of table 1 and audit them; print the results."""
    if options.trajectory is not None:
        audit_file(options, options.trajectory)
        return
    if options.out is not None:
        raise SettingsError("out", options.out, "no value here: without a trajectory no file is written")
    rows = []
    ensembles = reproduction.table_ensembles(options.settings, options.runs, options.seed, options.epochs, options.log)
    for settings, trajectory in ensembles:
        audit = forces.audit_forces(trajectory, ParticleSettings(fa=options.fa), options.frames)
        rows += forces.audit_rows(audit, weight_decay=settings.weight_decay)
    columns = [output.Column("weight decay", "weight_decay"), *forces.audit_columns(audit)]
    output.output_table(output.make_table(rows), columns, options.csv)
    print("\n" + forces.audit_legend(audit), file=options.log)


def audit_file(options: Options, path: Path) -> None:
    """Audit a trajectory; print the table, write the result, draw the figure."""
    for name in ("runs", "seed", "epochs", "settings"):
        if getattr(options, name) != getattr(Options(), name):
            raise SettingsError(name, getattr(options, name), "no value here: no networks are trained")
    files = TrajectoryOptions(csv=options.csv, trajectory=path, out=options.out, format=options.format)
    trajectory, out = open_input(files, "audit")
    in_planes = trajectory.attrs["system"] == TransformerSettings.system and trajectory.sizes["axis"] > 2
    keys = progress_measures.trajectory_key_frequencies(trajectory) if in_planes else None
    audit = forces.audit_forces(trajectory, ParticleSettings(fa=options.fa), options.frames, keys=keys)
    output.output_table(output.make_table(forces.audit_rows(audit)), forces.audit_columns(audit), options.csv)
    print("\n" + forces.audit_legend(audit), file=options.log)
    write_result_and_picture(files, "audit", "The force audit", audit, plots.plot_audit(audit, path.stem), out)


if __name__ == "__main__":
    run_command(main, Options, "analysis.audit")
