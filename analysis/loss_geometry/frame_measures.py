"""Measures of the training loss at frames of a trajectory: one loop over runs and
frames, which can be interrupted, and one layout of the result."""

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import xarray as xr
from tqdm import tqdm

from analysis.linearization.eigenmodes import stack_frames
from analysis.linearization.hessians import lanczos
from analysis.linearization.model_spectrum import hessian_product
from analysis.loss_geometry.training_loss import training_model
from dynamics.networks.threads import single_torch_thread
from dynamics.recording.model_file import ModelFile
from dynamics.recording.model_loss import RecordedModel, differentiable_twice
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import read_settings

SMALL = 2**22
"""Bytes of tensors at work below which one thread of torch is faster."""
TOLERANCE, BASIS = 1e-5, 40
"""Relative accuracy of the sharpness, and number of Lanczos vectors."""


def measure_frames(
    trajectory: xr.Dataset,
    frames: Sequence[int],
    measure: Callable[[RecordedModel, int], Mapping[str, Any]],
    variables: Mapping[str, tuple[tuple[str, ...], str]],
    sizes: Mapping[str, int],
    *,
    functions: ModelFile | None = None,
    dtype: torch.dtype = torch.float64,
    copies: int = 1,
    before: Callable[[RecordedModel, int, int], object] | None = None,
) -> xr.Dataset:
    """The values that `measure` returns for a model of one run and a frame, as
    variables (run, step, ...). NaN where a run has diverged.

    SIGINT after the first frame ends the computation; `frames_left` is the number of
    frames that are left.

    variables: further dimensions and meaning of each; sizes: of the further dimensions;
    copies: number of copies of the parameters that are computed at once; before: called
    with the first model, frame and the number of frames. Raises SettingsError,
    TrajectoryError."""
    valid = valid_frames(trajectory).values
    jobs = [
        (run, place)
        for run, place in itertools.product(range(len(valid)), range(len(frames)))
        if valid[run, frames[place]]
    ]
    results: list[Mapping[str, Any]] = []
    model, of_run = training_model(trajectory, 0, functions, dtype), 0
    with (
        differentiable_twice(),
        few_threads(model, copies),
        tqdm(total=len(jobs), unit="frame", leave=False, disable=None) as bar,
    ):
        try:
            if jobs and before is not None:
                before(model, frames[jobs[0][1]], len(jobs))
            for run, place in jobs:
                if run != of_run:
                    model, of_run = (
                        training_model(trajectory, run, functions, dtype),
                        run,
                    )
                results.append(measure(model, frames[place]))
                bar.update()
        except KeyboardInterrupt:
            if not results:
                raise
    all_sizes = {"run": len(valid), "step": len(frames), **sizes}
    settings = read_settings(trajectory)
    coords = {
        "step": trajectory["step"].values[list(frames)],
        "seed": ("run", trajectory["seed"].values),
    }
    attributes = {
        "system": settings.system,
        "model": getattr(settings, "model", settings.system),
        "parameters": model.size,
        "frames_left": len(jobs) - len(results),
    }
    data = stack_frames(variables, all_sizes, jobs[: len(results)], results)
    return xr.Dataset(data, coords, attributes)


def few_threads(
    model: RecordedModel, copies: int
) -> contextlib.AbstractContextManager[None]:
    """One thread of torch for small models."""
    is_small = 4 * copies * model.size < SMALL
    return single_torch_thread() if is_small else contextlib.nullcontext()


def sharpness(
    trajectory: xr.Dataset, frames: Sequence[int], functions: ModelFile | None = None
) -> xr.DataArray:
    """The largest eigenvalue of the Hessian of the training loss at some frames, by the
    Lanczos method.

    Parameters
    ----------
    trajectory : xr.Dataset
        Of a network of this package with its weights, or of a recorded model.
    frames : sequence of int
        Indices along `step`.
    functions : ModelFile, optional
        Functions of a recorded model.

    Returns
    -------
    xr.DataArray
        (run, step), dimensionless.

    Raises
    ------
    SettingsError, TrajectoryError
        As `training_model`.

    Examples
    --------
    >>> from dynamics import ModularSettings, simulate
    >>> short = simulate(ModularSettings(n=5), runs=1, steps=20, progress=False)
    >>> sharpness(short, [0, 1]).dims
    ('run', 'step')
    """

    def measure(model: RecordedModel, frame: int) -> dict[str, float]:
        product = hessian_product(model.losses(0, frame), model.row(0, frame))
        pair = lanczos(product, model.size, 1, "LA", TOLERANCE, BASIS)
        return {"sharpness": float(pair.values[0])}

    meaning = "largest eigenvalue of the Hessian"
    variables: dict[str, tuple[tuple[str, ...], str]] = {"sharpness": ((), meaning)}
    return measure_frames(
        trajectory, frames, measure, variables, {}, functions=functions
    )["sharpness"]
