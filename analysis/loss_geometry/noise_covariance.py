"""The noise of gradients along training: how the gradients of single examples differ.

With the gradients g_i of n examples and their mean G, the covariance is

    C = mean of (g_i - G) (g_i - G)^T

Its trace over |G|^2 is the simple noise scale (McCandlish et al. 2018, arXiv
1812.06162): the size of a mini-batch at which noise and gradient are equally large. Its
leading eigenvectors are compared with those of the Hessian (Jastrzebski et al. 2018,
arXiv 1711.04623)."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr

from analysis.linearization.curvature_operators import CurvatureOperator
from analysis.linearization.frame_results import Variables
from analysis.linearization.loss_operators import hessian_operator
from analysis.linearization.operator_spectra import movement_fractions, spectrum_ends
from analysis.linearization.training_loss import ExampleLoss
from analysis.loss_geometry.frame_measures import measure_frames
from analysis.statistics.division import ratio
from dynamics.networks.derivatives import mapped_gradient, value_and_gradient
from dynamics.recording.model_file import ModelFile
from dynamics.recording.model_loss import RecordedModel
from dynamics.settings import SettingsError, check_integer

_VARIABLES: Variables = {
    "loss": "mean loss of the examples",
    "gradient_size": "norm of the mean gradient",
    "noise_trace": "trace of the covariance of the gradients of single examples",
    "noise_scale": "that trace over the squared norm of the mean gradient",
    "noise_rank": "effective rank of the covariance: (sum of eigenvalues)^2 over sum of squares",
    "noise_along_hessian": "fraction of the trace in the space of the Hessian's leading eigenvectors",
    "gradient_along_hessian": "fraction of the squared gradient in that space",
    "noise_eigenvalue": (
        ("mode",),
        "largest eigenvalues of the covariance, descending",
    ),
    "hessian_eigenvalue": (("mode",), "largest eigenvalues of the Hessian, descending"),
    "alignment": (
        ("mode",),
        "v . C v of the Hessian's eigenvectors over the largest eigenvalue of C",
    ),
}
CHUNK = 2**25
"""Numbers in the gradients that are computed at once."""
TOLERANCE = 1e-4
"""Accuracy of the Hessian's eigenvectors, relative to the largest magnitude."""
BASIS = 20
"""Number of Lanczos vectors for each."""
LEAST_BASIS = 40
"""Least number of Lanczos vectors."""


def gradient_noise(
    trajectory: xr.Dataset,
    frames: Sequence[int],
    examples: int = 1024,
    modes: int = 5,
    functions: ModelFile | None = None,
    log: Callable[[str], Any] | None = None,
) -> xr.Dataset:
    """The covariance of the gradients of single examples at some frames.

    Parameters
    ----------
    trajectory : xr.Dataset
        Of a network of this package with its weights, or of a recorded model.
    frames : sequence of int
        Indices along `step`.
    examples : int
        Largest number of examples; of more, as many are drawn without replacement, the
        same in all frames.
    modes : int
        Number of leading eigenvectors of the covariance and of the Hessian.
    functions : ModelFile, optional
        Functions of a recorded model, whose loss is called with single examples: it must
        be the mean of the losses of its examples.
    log : callable, optional
        Called with a line of text about the cost.

    Returns
    -------
    xr.Dataset
        `loss`, `gradient_size`, `noise_trace`, `noise_scale`, `noise_rank`,
        `noise_along_hessian`, `gradient_along_hessian` (run, step), and
        `noise_eigenvalue`, `hessian_eigenvalue` and `alignment` (run, step, mode); all
        dimensionless.

    Raises
    ------
    SettingsError
        If the loss is no mean over examples, or a number is not allowed.
    TrajectoryError
        If no weights are recorded.

    Examples
    --------
    >>> from dynamics import ModularSettings, simulate
    >>> short = simulate(ModularSettings(n=5), runs=1, steps=20, progress=False)
    >>> gradient_noise(short, [0, 1], modes=2)["noise_scale"].dims
    ('run', 'step')
    """
    check_integer("examples", examples, 2, 10**9)
    check_integer("modes", modes, 1, 10**4)

    def before(model: RecordedModel, frame: int, count: int) -> None:
        if modes > model.size:
            limit = f"1 to {model.size} for {model.size} parameters"
            raise SettingsError("modes", modes, limit)
        if log is not None:
            used = min(examples, ExampleLoss(model, frame).examples)
            log(
                f"cost        {count} frames of the gradients of {used} examples, and"
                f" {8 * used * model.size / 1e9:.2g} GB for them"
            )

    measure = functools.partial(_measure_frame, count=examples, modes=modes)
    result = measure_frames(
        trajectory,
        frames,
        measure,
        _VARIABLES,
        {"mode": modes},
        functions=functions,
        copies=examples,
        before=before,
    )
    return result.assign_attrs(modes=modes, examples=examples)


def example_gradients(
    loss: ExampleLoss, row: torch.Tensor, indices: torch.Tensor
) -> np.ndarray:
    """The gradients of the losses of single examples, (example, parameter) float64."""

    chunk = max(1, CHUNK // len(row))
    _, gradients = mapped_gradient(loss, (None, 0), chunk)(row, indices[:, None])
    return gradients.double().numpy()


class NoiseAlignment(NamedTuple):
    """How noise lies to the leading eigenvectors of an operator."""

    eigenvalues: np.ndarray
    """Largest eigenvalues of the operator, descending, (mode,)"""
    vectors: np.ndarray
    """Their eigenvectors, (parameter, mode)"""
    powers: np.ndarray
    """v . C v of each, with the covariance C of the noise, (mode,)"""


def noise_alignment(
    operator: CurvatureOperator, noise: np.ndarray, modes: int
) -> NoiseAlignment:
    """The alignment of noise with the leading eigenvectors of an operator.

    Parameters
    ----------
    operator : CurvatureOperator
        Symmetric, such as the Hessian.
    noise : array, (example, parameter)
        Deviations from the mean over the square root of the number of examples: their
        covariance is C = noise^T noise.
    modes : int
        Number of eigenvectors.

    Returns
    -------
    NoiseAlignment

    Examples
    --------
    >>> from analysis.linearization import CurvatureOperator
    >>> scale = np.array([4.0, 3.0, 2.0, 1.0])
    >>> hessian = CurvatureOperator({"w": (4,)}, scale.__mul__)
    >>> noise_alignment(hessian, np.array([[2.0, 1.0, 0.0, 0.0]]), 2).powers.round(6)
    array([4., 1.])
    """
    basis = max(LEAST_BASIS, BASIS * modes)
    pairs = spectrum_ends(operator, modes, "LA", TOLERANCE, basis)
    vectors = pairs.vectors[:, ::-1]
    powers = np.square(noise @ vectors).sum(axis=0)
    return NoiseAlignment(pairs.values[::-1], vectors, powers)


def _measure_frame(
    model: RecordedModel, frame: int, count: int, modes: int
) -> dict[str, Any]:
    loss = ExampleLoss(model, frame)
    row = model.row(0, frame)
    indices = torch.arange(loss.examples)
    if count < loss.examples:
        generator = torch.Generator().manual_seed(0)
        indices = torch.randperm(loss.examples, generator=generator)[:count]
    gradients = example_gradients(loss, row, indices)
    mean = gradients.mean(axis=0)
    _check_mean(mean, value_and_gradient(loss, row, indices)[1].double().numpy())
    noise = (gradients - mean) / np.sqrt(len(indices))
    gram = noise @ noise.T if len(noise) < len(row) else noise.T @ noise
    eigenvalues = np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0)
    eigenvalues = np.pad(eigenvalues, (0, max(0, modes - len(gram))))
    hessian = noise_alignment(hessian_operator(model, 0, frame), noise, modes)
    trace = eigenvalues.sum()
    squared = float(mean @ mean)
    return {
        "loss": float(loss(row)),
        "gradient_size": np.sqrt(squared),
        "noise_trace": trace,
        "noise_scale": ratio(trace, squared),
        "noise_rank": ratio(trace**2, np.square(eigenvalues).sum()),
        "noise_along_hessian": ratio(hessian.powers.sum(), trace),
        "gradient_along_hessian": movement_fractions(hessian.vectors, mean).sum(),
        "noise_eigenvalue": eigenvalues[:modes],
        "hessian_eigenvalue": hessian.eigenvalues,
        "alignment": ratio(hessian.powers, eigenvalues[0]),
    }


def _check_mean(mean: np.ndarray, gradient: np.ndarray) -> None:
    """Raise SettingsError if the gradient is not the mean of those of examples."""
    if not np.allclose(
        mean, gradient, rtol=1e-3, atol=1e-6 + 1e-3 * np.abs(mean).max()
    ):
        raise SettingsError(
            "model",
            "a loss of a batch that is not the mean of the losses of its examples",
            "one that is; BatchNorm in eval mode, no sum over the batch",
        )
