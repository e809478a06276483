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
- sharpness, the largest eigenvalue, times lr / 2: gradient descent is unstable above 1
  (Cohen et al. 2021). With Adam this is a scale and not a limit. The learning rate is
  the recorded variable `learning_rate` (run, step) if there is one, otherwise that of
  the first parameter group at the beginning. If parameters have learning rates of their
  own, H is multiplied on both sides by the square root of each rate over lr;
- if second moments v are recorded, the largest eigenvalue of P^-1/2 H P^-1/2, with
  Adam's preconditioner P = (1 - beta1^t) (sqrt(v) + eps) after t updates of Adam, and
  its ratio to 2 (1 + beta1) / ((1 - beta1) lr), above which Adam is unstable (Cohen et
  al. 2022, "Adaptive gradient methods at the edge of stability").

Products are two backward passes, the first of which is kept if there is only one batch:
that is the fastest way, and what needs memory. All values are dimensionless. NaN:
frames of a run after it diverged, updates from the last frame, preconditioned values at
the beginning, and eigenvalues that Lanczos does not find."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import xarray as xr
from tqdm import tqdm

from analysis.linearization.frame_results import (
    Variables,
    frame_dataset,
    model_attributes,
    valid_jobs,
)
from analysis.linearization.hessians import (
    ExtremeEigenpairs,
    lanczos,
)
from analysis.linearization.network_curvature import (
    movement_fractions,
    relative_learning_rates,
)
from analysis.linearization.spectrum_options import SpectrumOptions
from analysis.output.results import results_until_interrupted
from dynamics.networks.derivatives import FlatLoss, hessian_vector_product
from dynamics.networks.from_trajectory import network_of
from dynamics.recording.model_loss import (
    ModelLoss,
    RecordedModel,
    mean_value_and_gradient,
)
from dynamics.recording.quantities import (
    LEARNING_RATES,
    MOMENT_UPDATES,
    SECOND_MOMENT,
    TRAINED,
)
from dynamics.settings import (
    SettingsError,
    SparseSettings,
    TransformerSettings,
)
from dynamics.training.transformer_backends import learning_rate
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import read_settings

Vectors = Callable[[torch.Tensor], torch.Tensor]
"""The product of a symmetric matrix with a vector (parameter,), in float64."""

_SCALE_TOLERANCE, _SCALE_BASIS = 1e-2, 20
"""Relative accuracy and number of Lanczos vectors of the estimate of the largest
absolute eigenvalue. The tolerance is relative to this eigenvalue."""

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
    "relative_sharpness": "largest eigenvalue of the Hessian times lr / 2",
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
        "largest eigenvalue of the Hessian preconditioned by Adam's second moments"
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
    bar = tqdm(
        total=len(jobs),
        desc="spectra",
        unit="frame",
        disable=True if quiet else None,
        leave=False,
    )

    def measure(job: tuple[int, int]) -> dict[str, Any] | None:
        run, place = job
        spectrum = _FrameSpectrum(model, options, run, frames[place], valid, bar)
        result = spectrum.measure()
        bar.update()
        return result

    if jobs and log is not None:
        run, place = jobs[0]
        log(describe_cost(model, options, (run, frames[place]), len(jobs)))
    with bar:
        spectra = results_until_interrupted(measure, jobs)
    attributes = {
        **model_attributes(trajectory),
        "parameters": model.size,
        "lr": float(read_settings(trajectory).time_step),
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
    product = model_hessian(model, *at)
    vector = torch.ones(model.size, dtype=torch.float64)
    times = []
    for _ in range(1 + _TIMED_PRODUCTS):
        begin = time.perf_counter()
        product(vector)
        times.append(time.perf_counter() - begin)
    seconds = float(np.median(times[1:]))  # the first one takes longer
    fixed = (
        _SCALE_BASIS
        + 2 * options.eigenvalues
        + options.probes
        + 3 * _SCALE_BASIS * model.has_moments
    )
    few, many = fixed + options.basis, fixed + 10 * options.basis
    if 2 * options.eigenvalues >= model.size:
        few = many = 2 * model.size + 3 * _SCALE_BASIS * model.has_moments
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


def model_hessian(model: RecordedModel, run: int, frame: int) -> Vectors:
    """The product of the Hessian of a model's loss at a frame with a vector, after a
    check of its derivatives. Raises SettingsError."""
    model.check_derivatives(run, frame)
    return hessian_product(model.losses(run, frame), model.row(run, frame))


def hessian_product(losses: Sequence[FlatLoss], row: torch.Tensor) -> Vectors:
    """The product of the Hessian of the mean loss of the batches at flat parameters with
    a vector, as a function of the vector.

    With one batch its gradient's graph is kept; with several, only that of one batch at
    a time is in memory."""
    compiled = hessian_vector_product(losses[0], row) if len(losses) == 1 else None

    def product(vector: torch.Tensor) -> torch.Tensor:
        given = vector.to(row)
        if compiled is not None:
            return compiled(given).to("cpu", torch.float64)
        total = torch.zeros_like(given)
        for loss in losses:
            total += hessian_vector_product(loss, row)(given)
        return (total / len(losses)).to("cpu", torch.float64)

    return product


def spectrum_ends(
    product: Vectors,
    size: int,
    count: int,
    which: Literal["LA", "BE"],
    tolerance: float,
    basis: int,
) -> tuple[ExtremeEigenpairs, float]:
    """Eigenpairs as of `lanczos`, and the largest magnitude of an eigenvalue, to which
    the tolerance is relative.

    All eigenvalues are shifted to between one and three times that magnitude, because
    ARPACK's tolerance is relative to each eigenvalue, and those near zero would never
    be found. If there are at most `count` eigenvalues, they are those of the whole
    matrix."""
    if count >= size:
        matrix = torch.stack([product(axis) for axis in torch.eye(size).double()])
        values, vectors = np.linalg.eigh((matrix + matrix.T).numpy() / 2)
        return ExtremeEigenpairs(values, vectors), float(np.abs(values).max())
    largest = lanczos(product, size, 1, "LM", _SCALE_TOLERANCE, _SCALE_BASIS)
    scale = float(np.abs(largest.values[0]))
    if not scale > 0:
        nowhere = np.full((size, count), np.nan)
        return ExtremeEigenpairs(np.full(count, scale), nowhere), scale
    return lanczos(product, size, count, which, tolerance / 3, basis, 2 * scale), scale


def relative_residuals(
    product: Vectors, pairs: ExtremeEigenpairs, scale: float
) -> np.ndarray:
    """|H v - lambda v| / scale of eigenpairs, (eigenvalue,); NaN for those that were
    not found."""
    if np.isnan(pairs.vectors).any():
        return np.full(len(pairs.values), np.nan)
    vectors = torch.tensor(pairs.vectors.T)
    applied = torch.stack([product(vector) for vector in vectors], dim=-1).numpy()
    return np.linalg.norm(applied - pairs.vectors * pairs.values, axis=0) / scale


def hutchinson_trace(product: Vectors, size: int, probes: int) -> tuple[float, float]:
    """The mean of v . H v over fixed random signs v, and its standard error."""
    generator = np.random.Generator(np.random.Philox(1))
    result = np.empty(probes)
    for probe in range(probes):
        signs = torch.from_numpy(generator.integers(0, 2, size) * 2.0 - 1.0)
        result[probe] = float(signs @ product(signs))
    return float(result.mean()), float(result.std(ddof=1) / np.sqrt(probes))


class StabilityRates(NamedTuple):
    """The learning rates of a frame, and what they scale."""

    rate: float
    """The learning rate of the next update, lr; NaN if it is not known. Of a recorded
    model it is that of the first parameter group, or the largest if that is 0."""
    limit: float
    """Adam's limit of the preconditioned sharpness for this rate."""
    root: torch.Tensor | None
    """Square root of each parameter's rate over this rate, (parameter,) float64, with
    which H is multiplied on both sides; None if all are equal."""


def stability_rates(model: RecordedModel, run: int, frame: int) -> StabilityRates:
    """The learning rates of the update that follows a frame."""
    trajectory = model.trajectory
    settings = read_settings(trajectory)
    rate = float(settings.time_step) if getattr(settings, "optimizer", "") else np.nan
    if isinstance(settings, TransformerSettings):
        rate = learning_rate(settings, int(trajectory["step"][frame]))
    if "learning_rate" in trajectory:
        rate = float(trajectory["learning_rate"].isel(run=run, step=frame))
    rates = _by_parameter(model, LEARNING_RATES, run, frame)
    root = None
    if isinstance(settings, SparseSettings):
        network: Any = network_of(trajectory)
        rates = rate * torch.from_numpy(relative_learning_rates(network))
    if rates is not None and rates.unique().numel() > 1:
        rate = rate if rate > 0 else float(rates.max())
        root = (rates / rate).sqrt()
    beta1 = getattr(settings, "beta1", 0.0)
    limit = 2 * (1 + beta1) / ((1 - beta1) * rate) if rate else np.inf
    return StabilityRates(rate, limit, root)


def _by_parameter(
    model: RecordedModel, name: str, run: int, frame: int
) -> torch.Tensor | None:
    """A variable that has one number for each trained tensor, or for all, as a number
    for each parameter: (parameter,) float64; None if it is not recorded."""
    if name not in model.trajectory.variables:
        return None
    values = model.trajectory[name].isel(step=frame)
    if not values.ndim:
        return torch.full((model.size,), float(values), dtype=torch.float64)
    names = json.loads(model.trajectory.attrs[TRAINED])
    by_name = dict(zip(names, values.isel(run=run).values.tolist(), strict=True))
    lengths = torch.tensor(model.lengths)
    tensors = torch.tensor([by_name[name] for name in model.shapes]).double()
    return tensors.repeat_interleave(lengths)


def adam_scale(model: RecordedModel, run: int, frame: int) -> torch.Tensor | None:
    """The inverse root of Adam's preconditioner, (parameter,) float64, 0 for parameters
    without an update; None without second moments and before the first update.

    The number of updates is that of the moments, which is not the step of a branch or of
    a recording of a model that was trained before; only recordings that do not have it
    are taken to begin with the first update."""
    if not model.has_moments:
        return None
    updates = _by_parameter(model, MOMENT_UPDATES, run, frame)
    if updates is None:
        updates = torch.full((model.size,), float(model.trajectory["step"][frame]))
    if not updates.any():
        return None
    settings = read_settings(model.trajectory)
    moment = model.row(run, frame, SECOND_MOMENT).cpu().double()
    beta1, eps = getattr(settings, "beta1", 0.0), getattr(settings, "eps", 0.0)
    scale = ((1 - beta1 ** updates.double()) * (moment.sqrt() + eps)).rsqrt()
    return torch.where(updates > 0, scale, 0.0)


class _FrameSpectrum:
    """The variables of one frame; its products are counted on the progress bar."""

    def __init__(
        self,
        model: RecordedModel,
        options: SpectrumOptions,
        run: int,
        frame: int,
        valid: np.ndarray,
        bar: tqdm,
    ) -> None:
        self.model, self.options, self.bar = model, options, bar
        self.run, self.frame = run, frame
        self.row, self.products = model.row(run, frame), 0
        self.losses, self.update = model.losses(run, frame), None
        follows = frame + 1 < valid.shape[1] and valid[run, frame + 1]
        if follows and model.is_complete(frame + 1):
            change = model.row(run, frame + 1) - self.row
            self.update = change.cpu().double().numpy()

    def measure(self) -> dict[str, float | np.ndarray] | None:
        """The variables, or None if the loss or its gradient is not finite."""
        loss, gradient = mean_value_and_gradient(self.losses, self.row)
        if not (np.isfinite(loss) and torch.isfinite(gradient).all()):
            return None
        options, size = self.options, self.model.size
        leading = slice(-options.eigenvalues, None)
        product = self._counted(model_hessian(self.model, self.run, self.frame))
        pairs, scale = spectrum_ends(
            product,
            size,
            2 * options.eigenvalues,
            "BE",
            options.tolerance,
            options.basis,
        )
        if 2 * options.eigenvalues >= size:
            trace, error = pairs.values.sum(), 0.0
        else:
            trace, error = hutchinson_trace(product, size, options.probes)
        along = gradient.cpu().double().numpy()
        gradient_along = movement_fractions(pairs.vectors, along)
        update_along = movement_fractions(pairs.vectors, self.update)
        rates = stability_rates(self.model, self.run, self.frame)
        relative = pairs.values[-1]
        if rates.root is not None:
            relative = self._largest_eigenvalue(product, rates.root)
        root = adam_scale(self.model, self.run, self.frame)
        preconditioned = np.nan
        if root is not None:
            root = root if rates.root is None else rates.root * root
            preconditioned = self._largest_eigenvalue(product, root)
        return {
            "loss": loss,
            "gradient_size": float(np.linalg.norm(along)),
            "sharpness": pairs.values[-1],
            "lowest": pairs.values[0],
            "relative_sharpness": relative * rates.rate / 2,
            "trace": trace,
            "trace_error": error,
            "gradient_fraction": gradient_along[leading].sum(),
            "update_fraction": update_along[leading].sum(),
            "preconditioned_sharpness": preconditioned,
            "relative_preconditioned": preconditioned / rates.limit,
            "eigenvalue": pairs.values,
            "residual": relative_residuals(product, pairs, scale),
            "gradient_along": gradient_along,
            "update_along": update_along,
            "products": self.products,
        }

    def _counted(self, product: Vectors) -> Vectors:
        def counted(vector: torch.Tensor) -> torch.Tensor:
            self.products += 1
            self.bar.set_postfix_str(f"{self.products} products", refresh=False)
            self.bar.update(0)
            return product(vector)

        return counted

    def _largest_eigenvalue(self, product: Vectors, root: torch.Tensor) -> float:
        """The largest eigenvalue of the Hessian with rows and columns multiplied by a
        factor (parameter,)."""
        result, _ = spectrum_ends(
            lambda vector: root * product(root * vector),
            self.model.size,
            1,
            "LA",
            self.options.tolerance,
            self.options.basis,
        )
        return float(result.values[0])
