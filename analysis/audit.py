"""The force audit: how much of the gradient of a network's embeddings do the particle
forces of CA explain?

python -m analysis.audit
python -m analysis.audit RUN.nc [OTHER.nc ...]
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import tyro

from analysis import forces, output, plots, progress_measures, reproduction
from analysis.command_line.options import PictureOptions
from analysis.command_line.parsing import run_command
from analysis.command_line.record import (
    TrajectoryOptions,
    label_result,
    open_input,
    write_result_and_picture,
)
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    check_real,
)


@dataclasses.dataclass(frozen=True)
class Options(PictureOptions):
    """Measure how much of the gradient of a network's embeddings is explained by the
    particle forces of CA (section 6) during training. The table gives the cosine and
    R², the weight of each of the four force fields, and a baseline with randomly
    permuted (renamed) tokens. Without a trajectory, networks are trained at weight
    decay 0, 0.3, 0.6 and 1. Transformers (sims.transformer) are also audited in the
    planes of their key frequencies.

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
    frames: int = 41
    """Number of audited frames of a single trajectory, denser at the start."""
    key_fraction: float = 0.02
    """Power of a key frequency in the last logits of a transformer, as a fraction of
    the largest power."""
    x: str | None = None
    """With several trajectories: the setting on the horizontal axis of the figure.
    Default: attention_rate, or the first in which they differ."""
    runs: int = 100
    """Number of networks for each weight decay."""
    seed: int = 0
    """Seed of the first network."""
    epochs: int | None = None
    """Number of training epochs. Default: 2000."""
    fa: float = ParticleSettings.fa
    """Alignment constant f_a of the particle forces; it is not used in the fit of the
    four fields."""
    out: Path | None = None
    """With trajectories: NetCDF file for the result; the picture is saved beside it.
    Default: TRAJECTORY-audit.nc, or audits.nc for several, in the folder of the first
    trajectory."""
    settings: ModularSettings = dataclasses.field(default_factory=ModularSettings)


def main(options: Options) -> None:
    """Audit the trajectories, or train or find the four ensembles of table 1 and audit
    them; print the results."""
    check_real("key_fraction", options.key_fraction, positive=True, up_to=1)
    if options.trajectories:
        for name in ("runs", "seed", "epochs", "settings"):
            if getattr(options, name) != getattr(Options(), name):
                raise SettingsError(
                    name,
                    getattr(options, name),
                    "no value here: no networks are trained",
                )
        (audit_file if len(options.trajectories) == 1 else compare_files)(options)
        return
    if options.out is not None:
        raise SettingsError(
            "out", options.out, "no value here: without a trajectory no file is written"
        )
    rows = []
    ensembles = reproduction.table_ensembles(
        options.settings, options.runs, options.seed, options.epochs, options.log
    )
    for settings, trajectory in ensembles:
        audit = forces.audit_forces(
            trajectory, ParticleSettings(fa=options.fa), options.frames
        )
        rows += forces.audit_rows(audit, weight_decay=settings.weight_decay)
    columns = [
        output.Column("weight decay", "weight_decay"),
        *forces.audit_columns(audit),
    ]
    output.output_table(output.make_table(rows), columns, options.csv)
    print("\n" + forces.audit_legend(audit), file=options.log)


def audit_file(options: Options) -> None:
    """Audit a trajectory; print the table, write the result, draw the figure."""
    (path,) = options.trajectories
    files = TrajectoryOptions(
        csv=options.csv, trajectory=path, out=options.out, format=options.format
    )
    trajectory, out = open_input(files, "audit")
    keys = progress_measures.plane_key_frequencies(trajectory, options.key_fraction)
    audit = forces.audit_forces(
        trajectory, ParticleSettings(fa=options.fa), options.frames, keys=keys
    )
    output.output_table(
        output.make_table(forces.audit_rows(audit)),
        forces.audit_columns(audit),
        options.csv,
    )
    print("\n" + forces.audit_legend(audit), file=options.log)
    figure = plots.plot_audit(audit, path.stem)
    result = label_result(audit, "audit", "The force audit", path)
    write_result_and_picture(options, result, figure, out)


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
    out = output.check_result_path(
        options.out or paths[0].with_name("audits.nc"), inputs
    )
    trajectories = [
        open_input(TrajectoryOptions(csv=options.csv, trajectory=path), "audit")[0]
        for path in paths
    ]
    for trajectory in trajectories:
        forces.check_audited(trajectory)
    differing = forces.differing_settings(trajectories)
    if options.x is not None and options.x not in differing:
        raise SettingsError(
            "x",
            options.x,
            " or ".join(differing) or "no value here: no setting differs",
        )
    audits = {}
    for path, trajectory in zip(paths, trajectories, strict=True):
        moments = progress_measures.moment_frames(trajectory)
        keys = progress_measures.plane_key_frequencies(trajectory, options.key_fraction)
        audits[str(path)] = forces.audit_moments(
            trajectory, moments, ParticleSettings(fa=options.fa), keys
        )
        trajectory.close()
    result = forces.combine_audits(audits)
    output.output_table(
        output.make_table(forces.moment_rows(result)),
        forces.moment_columns(result),
        options.csv,
    )
    print("\n" + forces.MOMENT_LEGEND, file=options.log)
    result = result.assign_attrs(
        title="The force audit at moments of training", **inputs
    )
    figure = plots.plot_audits(result, options.x or "attention_rate")
    write_result_and_picture(options, result, figure, out)


if __name__ == "__main__":
    run_command(main, Options, "analysis.audit")
