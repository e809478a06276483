"""Measures of the training loss at frames of a trajectory: one loop over runs and
frames, which can be interrupted, and one layout of the result."""

import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import xarray as xr

from analysis.linearization.frame_results import (
    Variables,
    frame_dataset,
    model_attributes,
    valid_jobs,
)
from analysis.linearization.loss_operators import hessian_operator
from analysis.linearization.operator_spectra import largest_eigenvalue
from analysis.linearization.training_loss import training_model
from analysis.output.results import results_until_interrupted
from dynamics.networks.threads import single_torch_thread
from dynamics.progress import progress_bar
from dynamics.recording.model_file import ModelFile
from dynamics.recording.model_loss import (
    RecordedModel,
    mean_value_and_gradient,
)

SMALL = 2**22
"""Bytes of tensors at work below which one thread of torch is faster."""


def measure_frames(
    trajectory: xr.Dataset,
    frames: Sequence[int],
    measure: Callable[[RecordedModel, int], Mapping[str, Any]],
    variables: Variables,
    sizes: Mapping[str, int] | None = None,
    *,
    functions: ModelFile | None = None,
    dtype: torch.dtype = torch.float64,
    copies: int = 1,
    before: Callable[[RecordedModel, int, int], object] | None = None,
) -> xr.Dataset:
    """The values that `measure` returns for a model of one run and a frame, as
    variables (run, step, ...). NaN where a run has diverged, and where the loss or its
    gradient is not finite.

    SIGINT after the first frame ends the computation; `frames_left` is the number of
    frames that are left.

    variables: further dimensions and meaning of each; sizes: of the further dimensions;
    copies: number of copies of the parameters that are computed at once; before: called
    with the first model, frame and the number of frames. Raises SettingsError,
    TrajectoryError."""
    jobs = valid_jobs(trajectory, frames)
    models = functools.lru_cache(1)(
        lambda run: training_model(trajectory, run, functions, dtype)
    )
    model = models(0)

    def measure_finite(job: tuple[int, int]) -> Mapping[str, Any] | None:
        model = models(job[0])
        frame = frames[job[1]]
        row = model.row(0, frame)
        loss, gradient = mean_value_and_gradient(model.losses(0, frame), row)
        if not (math.isfinite(loss) and gradient.isfinite().all()):
            return None
        return measure(model, frame)

    with few_threads(model, copies):
        if jobs and before is not None:
            before(model, frames[jobs[0][1]], len(jobs))
        results = results_until_interrupted(
            measure_finite,
            progress_bar(jobs, unit="frame"),
        )
    result = frame_dataset(trajectory, frames, variables, sizes or {}, jobs, results)
    return result.assign_attrs(
        model_attributes(trajectory),
        parameters=model.size,
        frames_left=len(jobs) - len(results),
    )


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
        return {"sharpness": largest_eigenvalue(hessian_operator(model, 0, frame))}

    variables = {"sharpness": "largest eigenvalue of the Hessian"}
    result = measure_frames(trajectory, frames, measure, variables, functions=functions)
    return result["sharpness"]
