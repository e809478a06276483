"""Spectra and traces of any operator of curvature.

All functions take a `CurvatureOperator`. Those of the ends of a spectrum use the Lanczos
method (ARPACK) with a fixed start, the trace Hutchinson's estimator with fixed signs.
Like every method that starts from one vector, Lanczos can miss further copies of an
eigenvalue that is exactly degenerate. The density comes from a quadrature: with a random
vector v of length 1 and m steps of the Lanczos method, which give a tridiagonal matrix
with eigenvalues t_i and first components u_i of its eigenvectors, it is the mean over v
of

    sum over i of u_i^2 N(x; t_i, s^2)

(Ghorbani, Krishnan and Xiao 2019, arXiv 1901.10159, section 2). An operator that is not
symmetric, the force's Jacobian, has its whole spectrum computed: ends are those by real
part, and there is no quadrature. All values are dimensionless."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from scipy.stats import norm

from analysis.linearization.curvature_operators import CurvatureOperator
from dynamics.settings import SettingsError, check_integer

_SCALE_TOLERANCE = 1e-2
"""Relative accuracy of the largest magnitude of an eigenvalue."""
SCALE_BASIS = 20
"""Number of Lanczos vectors for it."""
_MAX_RESTARTS = 10_000
"""Number of restarts after which Lanczos counts as not converging."""
TOLERANCE = 1e-5
"""Default accuracy of eigenvalues, relative to the largest magnitude."""
BASIS = 40
"""Default number of Lanczos vectors."""
WHOLE = 2000
"""Number of parameters up to which a spectral measure has all eigenvalues."""
NULL = 1e-4
"""Fraction of the largest magnitude up to which an eigenvalue of a spectral measure
counts as 0."""


class Eigenpairs(NamedTuple):
    """Eigenvalues, ascending by real part, and their eigenvectors (parameter,
    eigenvalue); NaN for those that were not found."""

    values: np.ndarray
    vectors: np.ndarray


def whole_spectrum(operator: CurvatureOperator) -> Eigenpairs:
    """All eigenvalues, from the whole matrix; complex if it is not symmetric.

    Examples
    --------
    >>> turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    >>> rotation = CurvatureOperator({"x": (2,)}, turn.__matmul__, is_symmetric=False)
    >>> whole_spectrum(rotation).values.imag.tolist()
    [1.0, -1.0]
    """
    if operator.is_symmetric:
        return Eigenpairs(*operator.eigh())
    values, vectors = np.linalg.eig(operator.matrix)
    order = np.lexsort((-values.imag, values.real))
    return Eigenpairs(values[order], vectors[:, order])


def largest_magnitude(operator: CurvatureOperator) -> float:
    """The largest magnitude of an eigenvalue, within a percent.

    Examples
    --------
    >>> scale = np.array([1.0, -4.0, 2.0])
    >>> round(largest_magnitude(CurvatureOperator({"x": (3,)}, scale.__mul__)), 6)
    4.0
    """
    if not operator.is_symmetric:
        return float(np.abs(whole_spectrum(operator).values).max())
    pairs = _lanczos(operator, 1, "LM", _SCALE_TOLERANCE, SCALE_BASIS)
    return float(np.abs(pairs.values[0]))


def spectrum_ends(
    operator: CurvatureOperator,
    count: int = 1,
    which: Literal["LA", "BE"] = "BE",
    tolerance: float = TOLERANCE,
    basis: int = BASIS,
) -> Eigenpairs:
    """The largest eigenvalues, or half of them at each end of the spectrum, with their
    eigenvectors.

    All eigenvalues are shifted to between one and three times the largest magnitude,
    because ARPACK's tolerance is relative to each eigenvalue, and those near zero would
    never be found. A matrix of zeros, such as the Hessian of a network whose units are
    all dead, has eigenvalues 0 and eigenvectors NaN; both are NaN if Lanczos does not
    converge.

    Parameters
    ----------
    operator : CurvatureOperator
    count : int
        Number of eigenvalues. If there are fewer, they are those of the whole matrix.
    which : {"LA", "BE"}
        The largest ones, or both ends.
    tolerance : float
        Residual ``|H v - lambda v|`` of an eigenpair, relative to the largest magnitude of
        an eigenvalue.
    basis : int
        Number of vectors that Lanczos keeps.

    Returns
    -------
    Eigenpairs

    Examples
    --------
    >>> scale = np.linspace(-1.0, 5.0, 50)
    >>> ends = spectrum_ends(CurvatureOperator({"x": (50,)}, scale.__mul__), 2)
    >>> ends.values.round(6)
    array([-1.,  5.])
    """
    if count >= operator.size:
        return whole_spectrum(operator)
    if not operator.is_symmetric:
        values, vectors = whole_spectrum(operator)
        lowest = 0 if which == "LA" else count // 2
        ends = np.r_[:lowest, operator.size - count + lowest : operator.size]
        return Eigenpairs(values[ends], vectors[:, ends])
    scale = largest_magnitude(operator)
    if not scale > 0:
        return _not_found(operator.size, count, scale)
    return _lanczos(operator, count, which, tolerance / 3, basis, 2 * scale)


def largest_eigenvalue(
    operator: CurvatureOperator, tolerance: float = TOLERANCE, basis: int = BASIS
) -> float:
    """The largest eigenvalue, by real part: of a Hessian the sharpness, of the force's
    Jacobian the growth rate of the fastest mode. NaN if Lanczos does not converge.

    Examples
    --------
    >>> scale = np.array([1.0, -4.0, 2.0])
    >>> round(largest_eigenvalue(CurvatureOperator({"x": (3,)}, scale.__mul__)), 6)
    2.0
    """
    pairs = spectrum_ends(operator, 1, "LA", tolerance, basis)
    return float(pairs.values[-1].real)


def _lanczos(
    operator: CurvatureOperator,
    count: int,
    which: Literal["LA", "LM", "BE"],
    tolerance: float,
    basis: int,
    shift: float = 0.0,
) -> Eigenpairs:
    """`count` eigenpairs of a symmetric operator by the Lanczos method from a fixed
    start; all if there are not more.

    shift: what is added to the diagonal meanwhile, so that `tolerance` is relative to
    eigenvalue plus shift."""
    size = operator.size
    if count >= size:
        return whole_spectrum(operator)
    start = np.random.Generator(np.random.Philox(0)).standard_normal(size)
    if not (operator @ start).any():
        return _not_found(size, count, 0.0)
    shifted = LinearOperator(
        (size, size),
        matvec=lambda vector: operator @ vector + shift * vector,
        dtype=np.float64,
    )
    try:
        values, vectors = eigsh(
            shifted if shift else operator,
            count,
            which=which,
            v0=start,
            ncv=min(size, basis),
            maxiter=_MAX_RESTARTS,
            tol=tolerance,
        )
    except ArpackError:
        return _not_found(size, count, np.nan)
    order = np.argsort(values)
    return Eigenpairs(values[order] - shift, vectors[:, order])


def _not_found(size: int, count: int, value: float) -> Eigenpairs:
    return Eigenpairs(np.full(count, value), np.full((size, count), np.nan))


def relative_residuals(operator: CurvatureOperator, pairs: Eigenpairs) -> np.ndarray:
    """|H v - lambda v| of eigenpairs over the largest magnitude among their
    eigenvalues, (eigenvalue,); NaN for those that were not found."""
    if np.isnan(pairs.vectors).any():
        return np.full(len(pairs.values), np.nan)
    applied = np.stack([operator @ vector for vector in pairs.vectors.T], axis=-1)
    errors = np.linalg.norm(applied - pairs.vectors * pairs.values, axis=0)
    return errors / np.abs(pairs.values).max()


def movement_fractions(vectors: np.ndarray, movement: np.ndarray | None) -> np.ndarray:
    """cos² of a movement (parameter,) with orthonormal columns (parameter, direction):
    (direction,).

    NaN for no movement, or one of length 0.

    Examples
    --------
    >>> movement_fractions(np.eye(2), np.array([0.0, 3.0]))
    array([0., 1.])
    """
    size = 0.0 if movement is None else np.linalg.norm(movement)
    if movement is None or not size > 0:
        return np.full(vectors.shape[1], np.nan)
    return np.square(vectors.T @ (movement / size))


class TraceEstimate(NamedTuple):
    """An estimated trace and its standard error."""

    value: float
    error: float


def estimate_trace(operator: CurvatureOperator, probes: int = 64) -> TraceEstimate:
    """The trace by Hutchinson's estimator, the mean of v . H v over fixed random signs
    v.

    Parameters
    ----------
    operator : CurvatureOperator
    probes : int
        Number of vectors v, at least 2.

    Returns
    -------
    TraceEstimate

    Raises
    ------
    SettingsError

    Examples
    --------
    >>> scale = np.array([1.0, -4.0, 2.0])
    >>> estimate_trace(CurvatureOperator({"x": (3,)}, scale.__mul__)).value
    -1.0
    """
    check_integer("probes", probes, 2, 10**6)
    generator = np.random.Generator(np.random.Philox(1))
    products = np.empty(probes)
    for probe in range(probes):
        signs = generator.integers(0, 2, operator.size) * 2.0 - 1.0
        products[probe] = signs @ (operator @ signs)
    error = products.std(ddof=1) / np.sqrt(probes)
    return TraceEstimate(float(products.mean()), float(error))


class SpectralMeasure(NamedTuple):
    """The eigenvalues of an operator with the fraction of all that each stands for: all
    of them, or the nodes of a quadrature."""

    values: np.ndarray
    """(node,)"""
    weights: np.ndarray
    """(node,) with the sum 1"""
    size: int
    """Number of eigenvalues."""

    @property
    def null(self) -> float:
        """The magnitude up to which an eigenvalue counts as 0."""
        return NULL * float(np.abs(self.values).max())

    def trace(self) -> float:
        """Sum of the eigenvalues."""
        return self.size * float(self.weights @ self.values)

    def saddle_index(self) -> float:
        """Number of negative eigenvalues."""
        return self.size * float(self.weights[self.values < -self.null].sum())

    def null_fraction(self) -> float:
        """Fraction of eigenvalues that are 0."""
        return float(self.weights[np.abs(self.values) <= self.null].sum())

    def density(self, points: np.ndarray, width: float) -> np.ndarray:
        """Density at points (point,), each eigenvalue a Gaussian with a standard
        deviation: (point,) with the integral 1."""
        return norm.pdf(points[:, None], self.values, width) @ self.weights


def spectral_measure(
    operator: CurvatureOperator, steps: int = 80, probes: int = 4, whole: int = WHOLE
) -> SpectralMeasure:
    """The eigenvalues of a symmetric operator with their weights, from which its
    density and its saddle index come.

    Parameters
    ----------
    operator : CurvatureOperator
    steps, probes : int
        Steps of the Lanczos method, and number of random vectors.
    whole : int
        Number of parameters up to which all eigenvalues are computed instead.

    Returns
    -------
    SpectralMeasure

    Raises
    ------
    SettingsError
        If a number is not allowed, or the operator is not symmetric.

    Examples
    --------
    >>> scale = np.array([-1.0, 2.0, 4.0])
    >>> measure = spectral_measure(CurvatureOperator({"x": (3,)}, scale.__mul__))
    >>> measure.values, round(measure.saddle_index(), 6)
    (array([-1.,  2.,  4.]), 1.0)
    """
    check_integer("steps", steps, 2, 10**6)
    check_integer("probes", probes, 1, 10**6)
    if not operator.is_symmetric:
        raise SettingsError("operator", "one that is not symmetric", "a symmetric one")
    size = operator.size
    if size <= whole:
        values = operator.eigvalsh()
        return SpectralMeasure(values, np.full(size, 1 / size), size)
    nodes = [_lanczos_quadrature(operator, steps, seed) for seed in range(probes)]
    values, weights = np.concatenate(nodes, axis=1)
    return SpectralMeasure(values, weights / probes, size)


def _lanczos_quadrature(
    operator: CurvatureOperator, steps: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the quadrature from one random vector, ascending, with full
    reorthogonalisation; weights have the sum 1."""
    size = operator.size
    generator = np.random.Generator(np.random.Philox(seed))
    vector = generator.standard_normal(size)
    basis = np.zeros((min(steps, size), size))
    diagonal: list[float] = []
    beside: list[float] = []
    for index in range(len(basis)):
        basis[index] = vector / np.linalg.norm(vector)
        vector = operator @ basis[index]
        diagonal.append(float(basis[index] @ vector))
        for _ in range(2):  # the second time removes rounding errors
            vector = vector - basis[: index + 1].T @ (basis[: index + 1] @ vector)
        beside.append(float(np.linalg.norm(vector)))
        if beside[-1] <= 1e-10 * max(map(abs, diagonal)):
            break
    nodes, vectors = eigh_tridiagonal(diagonal, beside[:-1])
    return nodes, vectors[0] ** 2
