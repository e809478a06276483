"""A trajectory from checkpoints of a model that are already on the disk.

python -m sims.collect CHECKPOINTS... --embedding KEY
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

import dynamics
from analysis.command_line.parsing import run_command
from dynamics.settings import SettingsError, check_integer

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Options:
    """Read the checkpoints of a model in the order of their steps, and write them as a
    trajectory. Files are .pt, .pth, .ckpt and .bin of torch, of which only tensors,
    numbers and names are read, and .safetensors."""

    checkpoints: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of checkpoints, files, or one file with several state dicts. A folder may
    contain the folders checkpoint-500 and so on of a Trainer. Or CSV files of scalars
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
    modulus: Annotated[
        int | None, tyro.conf.arg(help_behavior_hint="(default: 0, no modulus)")
    ] = None
    """Modulus N of the addition that the model learns, if its tokens are the numbers
    modulo N. Default: that of the model file, or none."""
    state_key: str | None = None
    """Where the state dict lies in each file, such as model or state.nets.student.
    Default: the only mapping of names to tensors."""
    step_from: str | None = None
    """Where the step lies in each file, such as epoch or meta.iteration; for one file
    with several state dicts, the list of steps. Default: the number that differs
    between file names, or between the contents of the files."""
    model: Path | None = None
    """Model file: a Python file, which is executed, with functions of the model such as
    logits(parameters, inputs) and embedding(parameters). All floating-point tensors
    are taken, and the trajectory contains the source of the file for later
    analyses."""
    seed: int = 0
    """Seed of the run in the trajectory; runs of an ensemble need different ones."""
    out: Path | None = None
    """Trajectory file to write. Default: runs/NAME.nc, with the name of the first
    folder or file."""
    overwrite: bool = False
    """Replace an existing file."""


def main(options: Options) -> None:
    """Collect the checkpoints and write the trajectory."""
    if not options.checkpoints:
        raise SettingsError("checkpoints", "no value", "folders or files")
    modulus = check_integer("modulus", options.modulus or 0, 0, 10**9)
    seed = check_integer("seed", options.seed, 0, 2**62)
    if all(path.suffix == ".csv" for path in options.checkpoints):
        kind, trajectory = "frames", dynamics.collect_scalars(options.checkpoints, seed)
    else:
        kind, trajectory = "checkpoints", _collect_checkpoints(options, modulus, seed)
    out = options.out or Path("runs") / f"{options.checkpoints[0].resolve().stem}.nc"
    missing = dynamics.missing_steps(trajectory)
    if missing:
        some = ", ".join(map(str, missing[:5])) + (" ..." if len(missing) > 5 else "")
        print(f"missing     {len(missing)} {kind} between others: steps {some}")
    dynamics.save_trajectory(trajectory, out, options.overwrite)
    steps = trajectory["step"].values
    print(
        f"{kind:11} {len(steps)}, from step {steps[0]} to {steps[-1]}\ntrajectory "
        f" {out}"
    )


def _collect_checkpoints(options: Options, modulus: int, seed: int) -> xr.Dataset:
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
        modulus=modulus,
        state_key=options.state_key,
        step_from=options.step_from,
        seed=seed,
        model=model,
    )


if __name__ == "__main__":
    run_command(main, Options, "sims.collect")
