"""Curvature of the loss of any recorded model along its run, by products of the Hessian
with vectors.

At a recorded frame with parameters theta, the Hessian H of the mean loss over the given
batches gives

- both ends of its spectrum by the Lanczos method (ARPACK), with the residuals |H v -
  lambda v|. The tolerance is that of the residual relative to the largest magnitude of
  an eigenvalue. Like every method that starts from one vector, Lanczos can miss further
  copies of an eigenvalue that is exactly degenerate;
- its trace by Hutchinson's estimator with random signs, and the standard error of it;
- the fractions of the squared norm of the gradient, and of the update to the next
  recorded frame, in the space of the leading eigenvectors, those of the largest
  eigenvalues (Gur-Ari et al. 2018);
- sharpness, the largest eigenvalue, over the limit above which gradient descent with the
  recorded momentum and weight decay is unstable, without them 2 / lr (Cohen et al.
  2021); for Adam 2 / lr is a scale and not a limit (`optimizer_limits`). The learning
  rate is the recorded variable `learning_rate` (run, step) if there is one, otherwise
  that of the first parameter group at the beginning. If parameters have learning rates
  of their own, H is multiplied on both sides by the square root of each rate over lr;
- if second moments v are recorded, the largest eigenvalue of P^-1/2 H P^-1/2, with
  Adam's preconditioner P = (1 - beta1^t) (sqrt(v) + eps) after t updates of Adam, and
  its ratio to the limit above which Adam is unstable, without weight decay 2 (1 + beta1)
  / ((1 - beta1) lr) (Cohen et al. 2022, "Adaptive gradient methods at the edge of
  stability").

Products are two backward passes, the first of which is kept if there is only one batch:
that is the fastest way, and what needs memory. All values are dimensionless. NaN:
frames of a run after it diverged, updates from the last frame, preconditioned values at
the beginning, and eigenvalues that Lanczos does not find."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr
from tqdm import tqdm

from analysis.linearization.curvature_operators import CurvatureOperator
from analysis.linearization.frame_results import (
    Variables,
    frame_dataset,
    model_attributes,
    valid_jobs,
)
from analysis.linearization.loss_operators import (
    hessian_operator,
    preconditioned_operator,
)
from analysis.linearization.operator_spectra import (
    SCALE_BASIS,
    estimate_trace,
    largest_eigenvalue,
    movement_fractions,
    relative_residuals,
    spectrum_ends,
)
from analysis.linearization.optimizer_limits import (
    lacks_moments,
    limit_words,
    preconditioner_scale,
    stability_rates,
)
from analysis.linearization.spectrum_options import SpectrumOptions
from analysis.output.results import results_until_interrupted
from dynamics.progress import progress_bar
from dynamics.recording.model_loss import (
    ModelLoss,
    RecordedModel,
    mean_value_and_gradient,
)
from dynamics.settings import SettingsError
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import read_settings

MOST_PARAMETERS = 4000
"""Largest number of parameters for which all eigenvalues can be computed."""

_TIMED_PRODUCTS = 5
"""Number of products of which the median time is taken, since the machine may do other
work."""

SPECTRUM_SCALARS = {
    "loss": "mean loss over the batches",
    "gradient_size": "norm of its gradient",
    "sharpness": "largest eigenvalue of the Hessian",
    "lowest": "smallest eigenvalue of the Hessian",
    "relative_sharpness": (
        "largest eigenvalue of the Hessian over the limit of gradient descent with the"
        " momentum and weight decay of the optimizer"
    ),
    "limit": "largest eigenvalue of the Hessian at which gradient descent is stable",
    "trace": "trace of the Hessian, estimated",
    "trace_error": "standard error of the trace",
    "gradient_fraction": (
        "fraction of the squared gradient in the space of the leading eigenvectors"
    ),
    "update_fraction": (
        "fraction of the squared update to the next frame in the space of the leading"
        " eigenvectors"
    ),
    "preconditioned_sharpness": (
        "largest eigenvalue of the Hessian preconditioned by the optimizer's moments"
    ),
    "relative_preconditioned": (
        "that eigenvalue over the threshold of stability of Adam"
    ),
    "products": "number of products of the Hessian with vectors",
}
_MODE_MEANINGS = {
    "eigenvalue": "eigenvalues of the Hessian at both ends of the spectrum, ascending",
    "residual": "|H v - lambda v| over the largest magnitude of an eigenvalue",
    "gradient_along": "fraction of the squared gradient along each eigenvector",
    "update_along": (
        "fraction of the squared update to the next frame along each eigenvector"
    ),
}
_VARIABLES: Variables = {
    **SPECTRUM_SCALARS,
    **{name: (("mode",), meaning) for name, meaning in _MODE_MEANINGS.items()},
}


def model_curvature(
    trajectory: xr.Dataset,
    given: ModelLoss,
    frames: Sequence[int],
    options: SpectrumOptions | None = None,
    quiet: bool = False,
    log: Callable[[str], Any] | None = None,
) -> xr.Dataset:
    """Curvature of the loss of a recorded model at some frames of its trajectory.

    An interruption (SIGINT) after the first frame ends the computation: the result has
    NaN in the frames that are left, and its attribute `frames_left` is their number.

    Parameters
    ----------
    trajectory : xr.Dataset
        Recorded by ``dynamics.record(..., weights=True)``; with ``moments=True`` also
        for preconditioned values.
    given : ModelLoss
        The loss and the batches, such as those of ``dynamics.load_loss``.
    frames : sequence of int
        Indices along `step`. Updates are to the frame after each.
    options : SpectrumOptions, optional
    quiet : bool
        Show no progress bar.
    log : callable, optional
        Called with the expected cost, a line of text, before the computation.

    Returns
    -------
    xr.Dataset
        `SPECTRUM_SCALARS` (run, step); `eigenvalue`, `residual`, `gradient_along` and
        `update_along` (run, step, mode), with modes by ascending eigenvalue: half of
        them are the smallest and half the largest ones, or all modes.

    Raises
    ------
    TrajectoryError
        If the parameters are not recorded.
    SettingsError
        If the loss cannot be computed, or too many eigenvalues are wanted.

    Examples
    --------
    >>> import torch
    >>> from dynamics import ModelLoss, open_trajectory, record
    >>> model = torch.nn.Linear(4, 1, bias=False)
    >>> x, y = torch.diag(torch.tensor([1.0, 2.0, 3.0, 4.0])), torch.zeros(4)
    >>> def loss(parameters, batch):
    ...     return ((batch @ parameters["weight"][0]) ** 2).mean()
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with record(model, optimizer, "four.nc", weights=True) as recording:
    ...     for _ in range(2):
    ...         optimizer.zero_grad()
    ...         loss({"weight": model.weight}, x).backward()
    ...         optimizer.step()
    ...         recording.step()
    >>> options = SpectrumOptions(eigenvalues=1)
    >>> found = model_curvature(open_trajectory("four.nc"), ModelLoss(loss, lambda: [x]), [0, 1], options, quiet=True)
    >>> found["eigenvalue"].values[0, 0].round(6).tolist()
    [0.5, 8.0]
    """
    options = options or SpectrumOptions()
    dtype = getattr(torch, options.precision)
    model = RecordedModel(trajectory, given, dtype, options.mode)
    if 2 * options.eigenvalues >= model.size > MOST_PARAMETERS:
        limit = f"1 to {(model.size - 1) // 2} for {model.size} parameters"
        raise SettingsError("eigenvalues", options.eigenvalues, limit)
    modes = min(2 * options.eigenvalues, model.size)
    valid = valid_frames(trajectory).values
    jobs = valid_jobs(trajectory, frames)
    bar = progress_bar(
        total=len(jobs),
        desc="spectra",
        unit="frame",
        quiet=quiet,
    )

    def measure(job: tuple[int, int]) -> dict[str, Any] | None:
        run, place = job
        frame = frames[place]
        update = None
        follows = frame + 1 < valid.shape[1] and valid[run, frame + 1]
        if follows and model.is_complete(frame + 1):
            change = model.row(run, frame + 1) - model.row(run, frame)
            update = change.cpu().double().numpy()
        result = _frame_spectrum(model, options, run, frame, update, bar)
        bar.update()
        return result

    if jobs and log is not None:
        run, place = jobs[0]
        log(describe_cost(model, options, (run, frames[place]), len(jobs)))
    with bar:
        spectra = results_until_interrupted(measure, jobs)
    attributes = {
        **model_attributes(trajectory),
        **limit_words(trajectory),
        "parameters": model.size,
        "lr": float(read_settings(trajectory).time_step),
        "lacks_moments": int(lacks_moments(model)),
        "frames_left": len(jobs) - len(spectra),
        **dataclasses.asdict(options),
        "mode": model.modes.description,
        "normalisation": ", ".join(sorted(model.modes.statistics)),
    }
    sizes = {"mode": modes}
    result = frame_dataset(trajectory, frames, _VARIABLES, sizes, jobs, spectra)
    return result.assign_attrs(attributes)


def describe_cost(
    model: RecordedModel, options: SpectrumOptions, at: tuple[int, int], count: int
) -> str:
    """The expected cost of `count` frames, from the median time of some products at one
    of them (run, frame)."""
    hessian = hessian_operator(model, *at)
    vector = np.ones(model.size)
    times = []
    for _ in range(1 + _TIMED_PRODUCTS):
        begin = time.perf_counter()
        hessian @ vector
        times.append(time.perf_counter() - begin)
    seconds = float(np.median(times[1:]))  # the first one takes longer
    fixed = (
        SCALE_BASIS
        + 2 * options.eigenvalues
        + options.probes
        + 3 * SCALE_BASIS * model.has_moments
    )
    few = fixed + options.basis
    many = fixed + 10 * options.basis
    if 2 * options.eigenvalues >= model.size:
        few = many = 2 * model.size + 3 * SCALE_BASIS * model.has_moments
    gigabytes = 8 * model.size * (options.basis + 4 * options.eigenvalues) / 1e9
    lasts = " to ".join(_duration(count * item * seconds) for item in (few, many))
    return (
        f"cost        {count} frames of {few} to {many} products of the Hessian of"
        f" {model.size} parameters with a\n            vector at {1000 * seconds:.3g}"
        f" ms: about {lasts}; {gigabytes:.2g} GB for the vectors of Lanczos"
    )


def _duration(seconds: float) -> str:
    for length, unit in ((3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def _frame_spectrum(
    model: RecordedModel,
    options: SpectrumOptions,
    run: int,
    frame: int,
    update: np.ndarray | None,
    bar: tqdm,
) -> dict[str, float | np.ndarray] | None:
    """The variables of one frame, with the update (parameter,) to the next one; its
    products are counted on the progress bar. None if the loss or its gradient is not
    finite."""
    row = model.row(run, frame)
    loss, flat_gradient = mean_value_and_gradient(model.losses(run, frame), row)
    gradient = flat_gradient.cpu().double().numpy()
    if not (np.isfinite(loss) and np.isfinite(gradient).all()):
        return None
    uncounted = hessian_operator(model, run, frame)
    products = 0

    def counted(vector: np.ndarray) -> np.ndarray:
        nonlocal products
        products += 1
        bar.set_postfix_str(f"{products} products", refresh=False)
        bar.update(0)
        return uncounted.product(vector)

    hessian = CurvatureOperator(model.shapes, counted)
    count = 2 * options.eigenvalues
    accuracy = (options.tolerance, options.basis)
    pairs = spectrum_ends(hessian, count, "BE", *accuracy)
    if count >= hessian.size:
        trace = pairs.values.sum()
        error = 0.0
    else:
        trace, error = estimate_trace(hessian, options.probes)
    leading = slice(-options.eigenvalues, None)
    gradient_along = movement_fractions(pairs.vectors, gradient)
    update_along = movement_fractions(pairs.vectors, update)
    rates = stability_rates(model, run, frame)
    sharpness = pairs.values[-1]

    def largest(operator: CurvatureOperator) -> float:
        return largest_eigenvalue(operator, *accuracy)

    scaled = sharpness if rates.root is None else largest(hessian.scaled(rates.root))
    relative = rates.plain.fraction(hessian, scaled, rates.root, largest=largest)
    preconditioned = fraction = np.nan
    adam = preconditioned_operator(hessian, model, run, frame)
    if adam is not None:
        preconditioned = largest(adam)
        fraction = rates.preconditioned.fraction(
            hessian,
            preconditioned,
            rates.root,
            preconditioner_scale(model, run, frame),
            largest=largest,
        )
    return {
        "loss": loss,
        "gradient_size": float(np.linalg.norm(gradient)),
        "sharpness": sharpness,
        "lowest": pairs.values[0],
        "relative_sharpness": relative,
        "limit": rates.plain.eigenvalue(sharpness, relative),
        "trace": trace,
        "trace_error": error,
        "gradient_fraction": gradient_along[leading].sum(),
        "update_fraction": update_along[leading].sum(),
        "preconditioned_sharpness": preconditioned,
        "relative_preconditioned": fraction,
        "eigenvalue": pairs.values,
        "residual": relative_residuals(hessian, pairs),
        "gradient_along": gradient_along,
        "update_along": update_along,
        "products": products,
    }
