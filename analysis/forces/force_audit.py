"""The force audit: how much of the gradient that trains a network's embeddings do the particle forces explain?

python -m analysis.audit

At the embeddings E of a network along its training, two targets are set against the particle forces of CA section 6
over the network's training pairs: the true force -dL/dE, and the applied update, which is the displacement to the
next recorded frame. Each target is judged

- against the law, all forces with their constants and balance: cosine, and R² with one free, positive scale;
- against the four fields (like attraction, unlike repulsion, like and unlike alignment) fitted to it by least
  squares, frame by frame: R², coefficients, and weights, which are coefficients times the field's norm over the
  target's;

and each of these in whole, and in the part that the normalisation of CA section 6 leaves of a motion: particles
keep zero mean and a constant spread, so that neither a shift nor a change of size says anything of the forces.

Four fields explain something of anything. So the fit is repeated with tokens renamed at random, which makes the
pairs of other sums alike: the mean R² of that is the baseline (up to N = 3 every name keeps the task, and there is
none). R² is not centred: R² = 1 - |y - fit|² / |y|², over all
tokens and axes. Random directions reach 4 over the number of those, given as `chance`. All values are dimensionless.
"""

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from analysis.command_line.parsing import run_command
from dynamics.settings import ModularSettings, ParticleSettings, check_integer

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from analysis.output.tables import TableRow
    from dynamics.particles.pair_list import PairList

RENAMINGS = 8
FRAMES = 41


# ----------------------------------------------------------------------------------------- array functions


class FieldFit(NamedTuple):
    """Least squares of a target on fields, through the origin."""

    coefficients: "np.ndarray"
    """(..., field); 0 for a field that is 0 everywhere, NaN where the target is"""
    weights: "np.ndarray"
    """(..., field) coefficients in units of the target's norm, times the field's norm: what each contributes"""
    r_squared: "np.ndarray"
    """(...), NaN where the target is 0"""


def fit_force_fields(target: "np.ndarray", fields: "np.ndarray") -> FieldFit:
    """Fit fields (field, ..., token, axis) to a target (..., token, axis), of finite numbers."""
    import numpy as np

    lead = target.shape[:-2]
    y = np.asarray(target, dtype=np.float64).reshape(*lead, -1)
    x = np.moveaxis(np.asarray(fields, dtype=np.float64).reshape(len(fields), *lead, -1), 0, -1)
    size, length = np.linalg.norm(y, axis=-1), np.linalg.norm(x, axis=-2)
    y = np.divide(y, size[..., None], out=np.zeros_like(y), where=size[..., None] > 0)
    x = np.divide(x, length[..., None, :], out=np.zeros_like(x), where=length[..., None, :] > 0)
    weights = (np.linalg.pinv(x, rcond=1e-10) @ y[..., None])[..., 0]
    rest = y - (x @ weights[..., None])[..., 0]
    r_squared = np.where(size > 0, 1 - (rest**2).sum(axis=-1), np.nan)
    scale = np.divide(size[..., None], length, out=np.zeros_like(length), where=length > 0)
    weights = np.where(size[..., None] > 0, weights, np.nan)
    return FieldFit(weights * scale, weights, r_squared)


def fields_with_renamed_tokens(embedding: "np.ndarray", pairs: "np.ndarray", names: "np.ndarray") -> "np.ndarray":
    """The four fields (field, ..., token, axis) were token i called names[i]; pairs (pair, 2) of the true names."""
    import numpy as np

    from dynamics.particles.pair_forces import force_fields

    n = embedding.shape[-2]
    called = np.empty_like(embedding)
    called[..., names, :] = embedding
    return force_fields(called, training_pair_list(n, names[pairs])).force[..., names, :]


def training_pair_list(n: int, pairs: "np.ndarray") -> "PairList":
    """Pairs as the forces take them; (i, i) counts twice, as it does in the gradient of a pair sum."""
    from dynamics.particles.pair_list import group_pairs

    return group_pairs(n, pairs, twice=True)


def geometric_frames(count: int, most: int) -> "np.ndarray":
    """At most so many (from 2) of `count` frames, the first and the last among them, denser at the start."""
    import numpy as np

    if count <= most:
        return np.arange(count)
    return np.unique(np.round(np.geomspace(1, count, most)).astype(int)) - 1


# -------------------------------------------------------------------------------------- of a trajectory


def audit_forces(
    trajectory: "xr.Dataset",
    law: ParticleSettings | None = None,
    frames: int = FRAMES,
    renamings: int = RENAMINGS,
) -> "xr.Dataset":
    """The force audit of a network's trajectory, by run and step: see the module.

    law: constants and balance of the particle forces (default: CA's at f_a = 1); its n and dim are the
    network's. Frames of a run after it diverged are NaN. Raises TrajectoryError, SettingsError.
    """
    import numpy as np
    import xarray as xr

    from dynamics.kernels.compiling import numba_threads
    from dynamics.networks import from_trajectory
    from dynamics.particles.pair_forces import FIELD_NAMES
    from dynamics.tasks import all_pairs, training_pairs

    network = from_trajectory.constant_attention_of(trajectory)
    settings = network.settings
    law = dataclasses.replace(law or ParticleSettings(), n=settings.n, dim=settings.dim, start="random", start_step=0)
    for name in network.variables:
        from_trajectory.check_variable_recorded(trajectory, name)
    at = geometric_frames(trajectory.sizes["step"], check_integer("frames", frames, 2, 10**9))
    later = np.minimum(at + 1, trajectory.sizes["step"] - 1)
    seeds = trajectory["seed"].values
    chosen = training_pairs(settings.n, settings.train_pairs, seeds)
    results = []
    for run, seed in enumerate(seeds):
        one = trajectory[list(network.variables)].isel(run=[run]).load()
        weights = from_trajectory.weights(one.isel(step=at).assign_attrs(trajectory.attrs), run=0)
        force = -embedding_gradient(network, weights, chosen[run])
        embedding = weights["embedding"].numpy().astype(np.float64)
        update = one["embedding"].isel(run=0, step=later).transpose("step", "token", "axis").values - embedding
        pairs = all_pairs(settings.n)[chosen[run]]
        targets = np.stack([force, update])
        with numba_threads(1):  # a run's frames are too little work to share out
            results.append(audit_run(embedding, targets, pairs, law, random_renamings(settings.n, seed, renamings)))
    dims = ("run", "target", "part", "step", "field")
    data = {
        name: (dims[: values.ndim + 1], np.stack([each[name] for each in results]))
        for name, values in results[0].items()
    }
    coords = {
        "step": trajectory["step"].values[at],
        "time": ("step", trajectory["time"].values[at]),
        "seed": ("run", seeds),
        "target": ["gradient", "update"],
        "part": ["whole", "normalised"],
        "field": list(FIELD_NAMES),
    }
    found = xr.Dataset(data, coords)
    found = found.where(found["step"] <= trajectory["last_step"].drop_attrs())
    free = settings.n * settings.dim - np.array([0, settings.dim + 1])
    found["chance"] = ("part", np.clip(len(FIELD_NAMES) / np.maximum(free, 1), 0, 1))
    return found.assign_attrs(law=json.dumps(dataclasses.asdict(law)), renamings=renamings)


def embedding_gradient(network, weights, chosen: "np.ndarray") -> "np.ndarray":
    """dL/dE of the training loss in float64, (step, token, axis), at weights (step, ...) of one run."""
    import torch

    from dynamics.tasks import all_pairs

    pairs = torch.from_numpy(all_pairs(network.settings.n))
    share = torch.from_numpy(chosen / chosen.sum())
    double = {name: weight.double() for name, weight in weights.items()}
    double["embedding"].requires_grad_()
    loss = network.loss(double, pairs, share).sum()
    return torch.autograd.grad(loss, double["embedding"])[0].numpy()


def random_renamings(n: int, seed: int, count: int) -> "list[np.ndarray]":
    """Random names of n tokens that make other pairs alike, from the run's seed alone; none up to three tokens."""
    from dynamics.randomness import random_stream

    generator = random_stream(int(seed), "audit/names")
    names: list[np.ndarray] = []
    while n > 3 and len(names) < count:
        drawn = generator.permutation(n)
        if not preserves_modular_sums(drawn):
            names.append(drawn)
    return names


def preserves_modular_sums(names: "np.ndarray") -> bool:
    """Whether equal sums of tokens are equal sums of their names: the names are u i + c modulo N."""
    import numpy as np

    n = len(names)
    return bool((names == (names[0] + np.arange(n) * (names[1] - names[0])) % n).all())


def audit_run(
    embedding: "np.ndarray",
    targets: "np.ndarray",
    pairs: "np.ndarray",
    law: ParticleSettings,
    renamings: "list[np.ndarray]",
) -> "dict[str, np.ndarray]":
    """The audit of one run: embedding (step, token, axis), targets (target, step, token, axis), training pairs
    (pair, 2). Arrays (target, part, step), and those of the fit (target, part, step, field)."""
    import numpy as np

    from analysis.forces.directions import cosine_similarity, without_shift_and_scaling
    from dynamics.particles.pair_forces import force_fields
    from dynamics.particles.system import ParticleSystem

    def parts(motion):
        return np.stack([motion, without_shift_and_scaling(motion, embedding)], axis=-4)

    particle = parts(ParticleSystem(law, pairs=pairs).force(embedding)[0])
    sought = parts(targets)

    def fit(four: "np.ndarray") -> FieldFit:
        each = parts(four)  # field, part, step, token, axis
        return fit_force_fields(sought, np.broadcast_to(each[:, None], (len(four), *sought.shape)))

    found, aligned = (
        fit(force_fields(embedding, training_pair_list(law.n, pairs)).force),
        cosine_similarity(sought, particle),
    )
    renamed = [fit(fields_with_renamed_tokens(embedding, pairs, names)).r_squared for names in renamings]
    return {
        "cosine": aligned,
        "law_r_squared": np.where(aligned > 0, aligned, 0 * aligned) ** 2,
        "r_squared": found.r_squared,
        "renamed_r_squared": np.mean(renamed, axis=0) if renamed else np.full(aligned.shape, np.nan),
        "coefficient": found.coefficients,
        "weight": found.weights,
    }


# -------------------------------------------------------------------------------------------- as a table

MOMENTS = (0, 20, 100, 500, 2000)

AUDIT_HEADER = (
    "epoch", "runs", "cosine whole", "cosine", "R² law", "R² 4 fields", "renamed", "cos update",
    "like attr.", "unlike rep.", "like align.", "unlike align.",
)  # fmt: skip

QUANTITIES = {
    "cosine_whole": ("cosine", "gradient", "whole"),
    "cosine": ("cosine", "gradient", "normalised"),
    "law_r_squared": ("law_r_squared", "gradient", "normalised"),
    "r_squared": ("r_squared", "gradient", "normalised"),
    "renamed_r_squared": ("renamed_r_squared", "gradient", "normalised"),
    "cosine_update": ("cosine", "update", "normalised"),
}
"""Columns of the table: variable, target and part."""


def audit_rows(found: "xr.Dataset") -> "list[TableRow]":
    """Means over runs with their 95% intervals at the audited frames nearest to some moments, and at the last."""
    import numpy as np

    from analysis.output.tables import TableRow, format_number, format_plus_minus
    from analysis.statistics.intervals import mean_interval

    result, step = [], found["step"].values
    moments = [moment for moment in MOMENTS if moment < step[-1]] + [step[-1]]
    for at in sorted({int(abs(step - moment).argmin()) for moment in moments}):
        frame = found.isel(step=at)
        samples = [frame[name].sel(target=target, part=part).values for name, target, part in QUANTITIES.values()]
        for name in ("weight", "coefficient"):
            fit = frame[name].sel(target="gradient", part="normalised").transpose("field", "run")
            samples += list(fit.values)
        means = [mean_interval(sample[np.isfinite(sample)]) for sample in samples]
        runs, epoch = int(np.isfinite(samples[0]).sum()), int(frame["step"])
        shown = means[: len(AUDIT_HEADER) - 2]
        text = [str(epoch), str(runs), *(format_plus_minus(mean, 2) for mean in shown)]
        numbers = [epoch, runs, *(bound for mean in means for bound in mean)]
        result.append(TableRow(text, [format_number(value) for value in numbers]))
    return result


def audit_columns() -> list[str]:
    """Of the table as CSV: means and bounds."""
    from dynamics.particles.pair_forces import FIELD_NAMES

    names = [
        *QUANTITIES,
        *(f"weight_{field}" for field in FIELD_NAMES),
        *(f"coefficient_{field}" for field in FIELD_NAMES),
    ]
    return ["epoch", "runs", *(f"{name}{end}" for name in names for end in ("", "_low", "_high"))]


def audit_legend(found: "xr.Dataset") -> str:
    """What stands in the table."""
    chance = float(found["chance"].sel(part="normalised"))
    return (
        "Of -dL/dE without shift and change of size, 'cosine whole' aside; the last four are the weights in the fit.\n"
        f"Four random directions would reach an R² of {chance:.2f}."
    )


@dataclasses.dataclass(frozen=True)
class Options:
    """How much of a network's gradient the particle forces of CA explain, at weight decay 0, 0.3, 0.6 and 1,
    along training: cosine and R², the weight of each of the four fields, and a baseline with tokens renamed."""

    runs: int = 100
    """Networks for each weight decay."""
    seed: int = 0
    """Seed of the first."""
    epochs: int | None = None
    """How long to train. None is 2000."""
    fa: float = ParticleSettings.fa
    """Alignment constant f_a of the particle law; the four fields are fitted without it."""
    csv: Path | None = None
    """Also write the table, with the coefficients, to a CSV file; - is the terminal."""
    settings: ModularSettings = dataclasses.field(default_factory=ModularSettings)


def main(options: Options) -> None:
    """Train, or find, the four ensembles of table 1; audit them and print what was found."""
    from analysis.output import tables
    from analysis.output.tables import TableRow, format_number
    from analysis.reproduction.ca_tables import train_table1_networks

    say = sys.stderr if str(options.csv) == "-" else sys.stdout
    found: list[TableRow] = []
    for settings, trajectory in train_table1_networks(
        options.settings, options.runs, options.seed, options.epochs, say
    ):
        result = audit_forces(trajectory, ParticleSettings(fa=options.fa))
        text, decay = f"{settings.weight_decay:g}", format_number(settings.weight_decay)
        found += [TableRow([text, *each.text], [decay, *each.numbers]) for each in audit_rows(result)]
    tables.print_rows(("weight decay", *AUDIT_HEADER), ["weight_decay", *audit_columns()], found, options.csv)
    print("\n" + audit_legend(result), file=say)


if __name__ == "__main__":
    run_command(main, Options, "analysis.audit")
