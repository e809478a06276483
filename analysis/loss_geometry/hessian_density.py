"""The spectral density of the Hessian of the training loss, or of its Gauss-Newton
matrix, along training.

With a random vector v of length 1 and m steps of the Lanczos method, which give a
tridiagonal matrix with eigenvalues t_i and first components u_i of its eigenvectors,
the density is the mean over v of

    sum over i of u_i^2 N(x; t_i, s^2)

(Ghorbani, Krishnan and Xiao 2019, arXiv 1901.10159, section 2). The Gauss-Newton matrix
is the Hessian of the loss with logits that are linear in the parameters (Schraudolph
2002, Neural Computation 14, 1723)."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
import xarray as xr
from scipy.linalg import eigh_tridiagonal
from scipy.stats import norm

from analysis.linearization.frame_results import Variables
from analysis.linearization.model_spectrum import (
    Vectors,
    hessian_product,
    model_hessian,
)
from analysis.loss_geometry.frame_measures import measure_frames
from dynamics.networks.from_trajectory import network_of
from dynamics.recording.model_file import ModelFile
from dynamics.recording.model_loss import FlatLoss, RecordedModel
from dynamics.settings import RecordedSettings, SettingsError, check_integer

Matrix = Literal["hessian", "gauss_newton"]
_VARIABLES: Variables = {
    "largest": "largest eigenvalue",
    "lowest": "smallest eigenvalue",
    "trace": "trace",
    "saddle_index": "number of negative eigenvalues",
    "null_fraction": "fraction of eigenvalues that are 0",
    "eigenvalue": (("point",), "abscissa of the density"),
    "density": (("point",), "density of eigenvalues, with integral 1"),
}
POINTS, WIDTH = 400, 0.005
"""Points of a density, and width s of its Gaussians as a fraction of the range."""
NULL = 1e-4
"""Fraction of the largest magnitude up to which an eigenvalue counts as 0."""
WHOLE = 2000
"""Number of parameters up to which all eigenvalues are computed."""


def lanczos_quadrature(
    product: Vectors, size: int, steps: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the quadrature from one random vector, ascending, with full
    reorthogonalisation; weights have the sum 1.

    Examples
    --------
    >>> values = torch.tensor([1.0, 2.0, 4.0]).double()
    >>> lanczos_quadrature(lambda vector: values * vector, 3, 10, seed=0)[0].round(6)
    array([1., 2., 4.])
    """
    generator = np.random.Generator(np.random.Philox(seed))
    vector = generator.standard_normal(size)
    basis = np.zeros((min(steps, size), size))
    diagonal, beside = [], []
    for index in range(len(basis)):
        basis[index] = vector / np.linalg.norm(vector)
        vector = product(torch.from_numpy(basis[index])).numpy()
        diagonal.append(float(basis[index] @ vector))
        for _ in range(2):  # the second time removes rounding errors
            vector = vector - basis[: index + 1].T @ (basis[: index + 1] @ vector)
        beside.append(float(np.linalg.norm(vector)))
        if beside[-1] <= 1e-10 * max(map(abs, diagonal)):
            break
    nodes, vectors = eigh_tridiagonal(diagonal, beside[:-1])
    return nodes, vectors[0] ** 2


def gauss_newton_loss(
    trajectory: xr.Dataset, model: RecordedModel, row: torch.Tensor
) -> FlatLoss:
    """The training loss of a network of this package as a function of flat parameters,
    with logits that are linear in them around a row. Raises SettingsError."""
    if trajectory.attrs["system"] == RecordedSettings.system:
        allowed = "hessian for a recorded model, whose loss is one function"
        raise SettingsError("matrix", "gauss_newton", allowed)
    network: Any = network_of(trajectory)
    batch = model.batches[0]
    inputs = batch[0]
    targets = batch[1] if len(batch) > 1 else network.target(inputs)

    def logits(flat: torch.Tensor) -> torch.Tensor:
        return network.logits(model.unflatten(flat), inputs)

    def loss(flat: torch.Tensor) -> torch.Tensor:
        value, change, *_ = torch.func.jvp(logits, (row,), (flat - row,))
        return torch.nn.functional.cross_entropy(value + change, targets.reshape(-1))

    return loss


def spectral_density(
    trajectory: xr.Dataset,
    frames: Sequence[int],
    matrix: Matrix = "hessian",
    steps: int = 80,
    probes: int = 4,
    whole: int = WHOLE,
    functions: ModelFile | None = None,
) -> xr.Dataset:
    """The spectral density of the Hessian or of the Gauss-Newton matrix at some frames.

    Parameters
    ----------
    trajectory : xr.Dataset
        Of a network of this package with its weights, or of a recorded model.
    frames : sequence of int
        Indices along `step`.
    matrix : {"hessian", "gauss_newton"}
        The second for networks of this package.
    steps, probes : int
        Steps of the Lanczos method, and number of random vectors.
    whole : int
        Number of parameters up to which all eigenvalues are computed instead.
    functions : ModelFile, optional
        Functions of a recorded model.

    Returns
    -------
    xr.Dataset
        `largest`, `lowest`, `trace`, `saddle_index` and `null_fraction` (run, step), and
        `eigenvalue` and `density` (run, step, point); all dimensionless. The index and
        the fraction are estimates where not all eigenvalues are computed.

    Raises
    ------
    SettingsError
        If a number is not allowed, or a recorded model has no loss.
    TrajectoryError
        If no weights are recorded.

    Examples
    --------
    >>> from dynamics import ModularSettings, simulate
    >>> short = simulate(ModularSettings(n=5), runs=1, steps=20, progress=False)
    >>> density = spectral_density(short, [0, 1], "gauss_newton")
    >>> bool((density["lowest"] > -1e-9).all())
    True
    """
    check_integer("steps", steps, 2, 10**6)
    check_integer("probes", probes, 1, 10**6)

    def measure(model: RecordedModel, frame: int) -> dict[str, Any]:
        if matrix == "gauss_newton":
            row = model.row(0, frame)
            loss = gauss_newton_loss(trajectory, model, row)
            product = hessian_product([loss], row)
        else:
            product = model_hessian(model, 0, frame)
        if model.size <= whole:
            dense = np.stack([product(unit).numpy() for unit in torch.eye(model.size)])
            nodes = np.linalg.eigvalsh((dense + dense.T) / 2)
            weights = np.full(len(nodes), 1 / len(nodes))
        else:
            pairs = [
                lanczos_quadrature(product, model.size, steps, seed)
                for seed in range(probes)
            ]
            nodes, weights = np.concatenate(pairs, axis=1)
            weights = weights / len(pairs)
        return _density_of(nodes, weights, model.size)

    result = measure_frames(
        trajectory,
        frames,
        measure,
        _VARIABLES,
        {"point": POINTS},
        functions=functions,
    )
    is_whole = int(result.attrs["parameters"] <= whole)
    return result.assign_attrs(matrix=matrix, whole=is_whole)


def _density_of(nodes: np.ndarray, weights: np.ndarray, size: int) -> dict[str, Any]:
    """The variables of a frame from eigenvalues with weights of sum 1."""
    lowest, largest = nodes.min(), nodes.max()
    width = WIDTH * ((largest - lowest) or 1.0)
    points = np.linspace(lowest - 4 * width, largest + 4 * width, POINTS)
    null = NULL * np.abs(nodes).max()
    return {
        "largest": largest,
        "lowest": lowest,
        "trace": size * float(weights @ nodes),
        "saddle_index": size * float(weights[nodes < -null].sum()),
        "null_fraction": float(weights[np.abs(nodes) <= null].sum()),
        "eigenvalue": points,
        "density": norm.pdf(points[:, None], nodes, width) @ weights,
    }
