"""A trajectory from checkpoints of a model that are already on the disk.

python -m sims.collect CHECKPOINTS... --embedding KEY
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

import dynamics
from analysis.command_line.parsing import run_command
from dynamics.settings import SettingsError, check_integer

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options:
    """Read the checkpoints of a model in the order of their steps, and write them as a
    trajectory. Prints what it found before writing. Files are .pt, .pth, .ckpt and .bin
    of torch, of which only tensors, numbers and names are read, .safetensors, .npz, and
    the .index.json of a checkpoint in several files."""

    checkpoints: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of checkpoints, files, or one file with several state dicts. A folder may
    contain folders such as checkpoint-500 with model.safetensors. Or CSV files of scalars
    from TensorBoard or wandb, for a trajectory of scalars alone."""
    embedding: str | None = None
    """Name of the embedding (token, axis) in the state dict. Required unless --weights
    or --model is given."""
    transpose: bool = False
    """The embedding is stored as (axis, token)."""
    tokens: int | None = None
    """Use only the first TOKENS rows of the embedding, which stand for numbers.
    Default: all."""
    weights: bool = False
    """Also take all floating-point tensors, as variables parameter.NAME; running means
    and variances of normalisation layers as buffer.NAME. A state dict does not tell
    other buffers from parameters."""
    modulus: int | None = None
    """Modulus N of the addition that the model learns, if its tokens are the numbers
    modulo N; 0 for no modulus. Default: that of the model file, or 0."""
    state_dict: str | None = None
    """Where the state dict lies in each file, such as model or state.nets.student;
    all for all tensors of the file. Default: the only mapping of names to tensors."""
    step_from: str | None = None
    """Where the step lies in each file, such as epoch or meta.iteration; for one file
    with several state dicts, the list of steps; order for the places of the files.
    Default: the number after a word such as step in the names, or the only one in which
    they differ (1k is 1000, 1,000 too); for names without numbers, global_step, step or
    iteration in the files."""
    rename: tuple[str, ...] = ()
    """Rules OLD=NEW: tensors whose names begin with OLD begin with NEW. The names of
    wrappers (_orig_mod, and module if all names begin with it) are removed before."""
    column: tuple[str, ...] = ()
    """Meaning of a column of CSV files: NAME=loss:test for the loss of the split test,
    NAME=VARIABLE for a variable, NAME= to leave it out. Default: columns such as
    val_loss are recognised by their names, other columns of numbers become variables."""
    model: Path | None = None
    """Model file: a Python file, which is executed, with functions of the model such as
    logits(parameters, inputs) and embedding(parameters). All floating-point tensors
    are taken, and the trajectory contains the source of the file for later
    analyses."""
    seed: int | None = None
    """Seed of the run in the trajectory; runs of an ensemble need different ones.
    Default: 0, or for CSV files those in the column seed."""
    out: Path | None = None
    """Trajectory file to write. Default: runs/NAME.nc, with the name of the first
    folder or file."""
    overwrite: bool = False
    """Replace an existing file."""


_ONLY_FOR_CHECKPOINTS = (
    "embedding",
    "transpose",
    "tokens",
    "weights",
    "modulus",
    "state_dict",
    "rename",
    "model",
)
"""Options that mean nothing for CSV files of scalars."""


def main(options: Options) -> None:
    """Collect the checkpoints and write the trajectory."""
    if not options.checkpoints:
        raise SettingsError("checkpoints", "no value", "folders or files")
    if options.modulus is not None:
        check_integer("modulus", options.modulus, 0, 10**9)
    seed = options.seed
    if seed is not None:
        check_integer("seed", seed, 0, 2**62)
    if all(path.suffix == ".csv" for path in options.checkpoints):
        for name in _ONLY_FOR_CHECKPOINTS:
            if getattr(options, name) != getattr(Options, name):
                raise SettingsError(name, "a value", "none for CSV files")
        unit = "frames"
        trajectory = dynamics.collect_scalars(
            options.checkpoints, seed, options.column, options.step_from, print
        )
    else:
        if options.column:
            raise SettingsError("column", " ".join(options.column), "none for tensors")
        unit = "checkpoints"
        trajectory = _collect_checkpoints(options, seed or 0)
    out = options.out or _default_path(options.checkpoints[0])
    missing = dynamics.missing_steps(trajectory)
    if missing:
        some = ", ".join(map(str, missing[:5])) + (" ..." if len(missing) > 5 else "")
        print(f"missing     {len(missing)} {unit} between others: steps {some}")
    dynamics.save_trajectory(trajectory, out, options.overwrite)
    steps = trajectory["step"].values
    print(f"{unit:11} {len(steps)}, from step {steps[0]} to {steps[-1]}")
    print(f"trajectory  {out}")


def _default_path(first: Path) -> Path:
    """runs/NAME.nc, with the name of the first folder, or of the first file without its
    suffix."""
    first = first.resolve()
    name = first.name if first.is_dir() else first.stem
    return Path("runs") / f"{name}.nc"


def _collect_checkpoints(options: Options, seed: int) -> xr.Dataset:
    """The trajectory of the checkpoints, read with the model file if one is named."""
    embedding = None
    if options.embedding is not None:
        embedding = dynamics.ParameterView(
            options.embedding, options.transpose, options.tokens
        )
    model = None if options.model is None else dynamics.load_model_file(options.model)
    return dynamics.collect_checkpoints(
        options.checkpoints,
        embedding,
        weights=options.weights,
        modulus=options.modulus,
        state_dict=options.state_dict,
        step_from=options.step_from,
        rename=options.rename,
        log=print,
        seed=seed,
        model=model,
    )


if __name__ == "__main__":
    run_command(main, Options, "sims.collect")
