r"""The kernels x/r² and 1/r as a smooth part, which a mesh represents, and a part that
is zero from a distance on.

With the distance r_c as the unit of length and u = r², the smooth parts are polynomials
A(u) x and B(u) for u < 1 and the kernels themselves beyond. They are those of a charge
spread over a ball (Ewald, 1921), here with the density I0(β sqrt(1 - u)) of Kaiser and
Bessel, whose spectrum is negligible beyond β:

    A(u) = (1 - t I1(β t) / I1(β)) / u,  t = sqrt(1 - u)
    B'(r) = -S(r) / r²,  S'(r) ~ r² I0(β t),  B(1) = S(1) = 1

S is the charge within a radius. A density of the same form gives the weights of the
interpolation between points and mesh. All lengths are in units of the mesh."""

import functools
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.polynomial.chebyshev import cheb2poly
from scipy import fft, special


class Splitting(NamedTuple):
    """Constants of the splitting and of the interpolation for one accuracy, as compiled
    kernels take them."""

    cutoff: float
    """r_c, in units of the mesh."""
    force: np.ndarray
    """(term,) Coefficients of A(u) as a polynomial in 2u - 1, highest power first."""
    inverse: np.ndarray
    """(term,) Coefficients of B(u), like those of A(u)."""
    window: np.ndarray
    """(term, node) Weights of the nodes around a point, as polynomials in 2f - 1, where
    f is its offset from the node below it; highest power first."""
    window_and_slope: np.ndarray
    """(term, 2 node) The same polynomials, and after them the derivatives of the
    weights with respect to f."""


def _fit(function, degree: int) -> Polynomial:
    """The polynomial that interpolates a function of u on [0, 1], in powers of 2u -
    1."""
    return Polynomial(
        cheb2poly(Chebyshev.interpolate(function, degree, domain=[0, 1]).coef),
        domain=[0, 1],
    )


def _quadrature(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss and Legendre on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(number)
    return (nodes + 1) / 2, weights / 2


def _smooth_force(u, shape: float):
    """A(u)."""
    t = np.sqrt(1 - u)
    return (1 - t * special.i1(shape * t) / special.i1(shape)) / np.maximum(u, 1e-300)


def _enclosed_charge(u, shape: float):
    """Charge of the ball within the radius sqrt(u), divided by the cube of the
    radius."""
    nodes, weights = _quadrature(64)
    square = np.asarray(u)[..., None] * nodes**2
    charge = (weights * nodes**2 * special.i0(shape * np.sqrt(1 - square))).sum(axis=-1)
    return (
        charge / (weights * nodes**2 * special.i0(shape * np.sqrt(1 - nodes**2))).sum()
    )


def _window(distance, width: int, shape: float):
    """Weight of a node at a distance from a point."""
    square = np.maximum(1 - (2 * distance / width) ** 2, 0.0)
    return np.where(
        square > 0, special.i0(shape * np.sqrt(square)) / special.i0(shape), 0.0
    )


def _smooth_absolute(values: np.ndarray, radius: float, shape: float) -> np.ndarray:
    """The numbers (value,), none negative, smoothed at 0 as |x| by the density over a
    radius."""
    nodes, weights = _quadrature(100)

    def density(x):
        return special.i0(shape * np.sqrt(np.maximum(1 - x**2, 0)))

    x = np.minimum(values / radius, 1)[:, None]
    outer = x + (1 - x) * nodes
    smooth = x[:, 0] ** 2 * (density(x * nodes) @ weights) + (1 - x[:, 0]) * (
        (outer * density(outer)) @ weights
    )
    return np.where(
        values < radius, radius * smooth / (density(nodes) @ weights), values
    )


class Parameters(NamedTuple):
    """What the constants for one accuracy are computed from; selected by measured
    errors."""

    width: int
    """Number of nodes along each axis that a point is spread to."""
    cutoff: float
    """r_c, in units of the mesh."""
    shape: float
    """β of the splitting."""
    window_shape: float
    """β of the weights of the interpolation."""
    degree: int
    """Degree of all polynomials."""


PARAMETERS = {
    1e-4: Parameters(8, 3.5, 9.0, 19.0, 9),
    1e-6: Parameters(8, 6.2, 12.0, 21.0, 9),
    1e-9: Parameters(16, 8.3, 21.0, 40.0, 22),
    1e-11: Parameters(16, 11.0, 25.0, 40.0, 22),
}
"""By the accuracy that they reach, with a margin, for point sets of all kinds."""


def parameters(accuracy: float) -> Parameters:
    """The parameters for errors below `accuracy`, at least 1e-11."""
    return next(choice for reached, choice in PARAMETERS.items() if reached <= accuracy)


@functools.cache
def splitting(accuracy: float) -> Splitting:
    """The constants for errors below `accuracy`."""
    width, cutoff, shape, window_shape, degree = parameters(accuracy)
    window: np.ndarray = np.stack(
        [
            _fit(
                lambda f, node=node: _window(
                    f + width // 2 - 1 - node, width, window_shape
                ),
                degree,
            ).coef[::-1]
            for node in range(width)
        ],
        axis=1,
    )
    slope = np.zeros_like(window)
    slope[1:] = window[:-1] * np.arange(2.0 * degree, 0.0, -2.0)[:, None]
    force = _fit(lambda u: _smooth_force(u, shape), degree)
    primitive = 0.5 * _fit(lambda u: _enclosed_charge(u, shape), degree - 1).integ()
    inverse = 1.0 + primitive(1.0) - primitive
    return Splitting(
        cutoff,
        force.coef[::-1].copy(),
        inverse.coef[::-1].copy(),
        window.copy(),
        np.hstack([window, slope]),
    )


def _smooth_kernels(
    square: np.ndarray, cutoff: float, constants: Splitting
) -> tuple[np.ndarray, np.ndarray]:
    """The smooth log r and 1/r at squared distances."""
    u = np.minimum(square / cutoff**2, 1.0)
    inner = 0.5 * Polynomial(constants.force[::-1], domain=[0, 1]).integ()
    beyond = 0.5 * np.log(np.maximum(square, cutoff**2))
    potential = beyond + np.where(u < 1, inner(u) - inner(1.0), 0.0)
    inverse = np.where(
        u < 1,
        Polynomial(constants.inverse[::-1], domain=[0, 1])(u) / cutoff,
        1 / np.sqrt(np.maximum(square, 1e-300)),
    )
    return potential, inverse


def _along_axis(length: int, accuracy: float) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances (index,) of the nodes 0 to half the length from node 0, smooth
    at half the length, and squared spectrum (index,) of the weights of the nodes."""
    width, cutoff, shape, window_shape, _ = parameters(accuracy)
    nodes, weights = _quadrature(100)
    index = np.arange(length // 2 + 1.0)
    distance = length / 2 - _smooth_absolute(length / 2 - index, cutoff, shape)
    angle = 2 * np.pi * index / length * (width / 2)
    transform = width * (
        np.cos(angle[:, None] * nodes)
        @ (weights * _window(width / 2 * nodes, width, window_shape))
    )
    return distance**2, transform**2


def _spectra(
    mesh: tuple[int, int], accuracy: float, halvings: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Spectra of log r, whose gradient is the first kernel, and of 1/r, both smooth,
    for a periodic mesh of this shape.

    halvings: how often the spacing of another mesh was halved to that of this one; if
    above 0, the smooth kernels of the other mesh are subtracted.

    They are real and even, so only frequencies from 0 to half the number of nodes are
    computed: (frequency, frequency). The weights of the interpolation from points to
    the mesh and back are divided out."""
    constants = splitting(accuracy)
    row_squares, row_spectrum = _along_axis(mesh[0], accuracy)
    column_squares, column_spectrum = _along_axis(mesh[1], accuracy)
    square = np.add.outer(row_squares, column_squares)
    deconvolution = np.multiply.outer(row_spectrum, column_spectrum)
    potential, inverse = _smooth_kernels(square, constants.cutoff, constants)
    if halvings:
        coarse = _smooth_kernels(square, constants.cutoff * 2**halvings, constants)
        potential -= coarse[0]
        inverse -= coarse[1]
    else:
        potential -= np.log(max(mesh) / 2)
    return (
        fft.dctn(potential, type=1) / deconvolution,
        fft.dctn(inverse, type=1) / deconvolution,
    )


spectra = functools.lru_cache(maxsize=3)(_spectra)
finer_spectra = functools.lru_cache(maxsize=12)(_spectra)
