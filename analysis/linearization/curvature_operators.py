"""Curvature as a linear operator: a square matrix over named parameters that is known by
its products with vectors. `operator_kinds` has the kinds of it, `operator_spectra` what is
computed from one."""

from __future__ import annotations

import difflib
import fnmatch
import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.sparse.linalg import LinearOperator

from dynamics.settings import SettingsError

Shapes = Mapping[str, tuple[int, ...]]
"""The shapes of parameters by name, in their order in a flat vector."""
Product = Callable[[np.ndarray], np.ndarray]
"""The product of a matrix with a vector (parameter,), in float64."""


class CurvatureOperator(LinearOperator):
    """A square matrix over named parameters, in float64. It is a linear operator of
    scipy: ``operator @ vector`` is a product, and scipy's solvers take it.

    Parameters
    ----------
    shapes : mapping of str to tuple of int
        The shapes of the parameters by name, in their order in a flat vector.
    product : callable
        The product with a flat vector (parameter,).
    closed_form : callable, optional
        Returns the whole matrix (parameter, parameter), where that is faster than
        products with all unit vectors.
    is_symmetric : bool

    Examples
    --------
    >>> values = np.array([1.0, 2.0, 4.0])
    >>> diagonal = CurvatureOperator({"bias": (1,), "weight": (2,)}, values.__mul__)
    >>> diagonal @ np.ones(3)
    array([1., 2., 4.])
    >>> diagonal.restricted(["weight"]).matrix
    array([[2., 0.],
           [0., 4.]])
    """

    def __init__(
        self,
        shapes: Shapes,
        product: Product,
        closed_form: Callable[[], np.ndarray] | None = None,
        is_symmetric: bool = True,
    ) -> None:
        size = sum(map(math.prod, shapes.values()))
        super().__init__(np.dtype(np.float64), (size, size))
        self.shapes = dict(shapes)
        self.product = product
        self.closed_form = closed_form
        self.is_symmetric = is_symmetric

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.shape[0]

    def _matvec(self, vector: np.ndarray) -> np.ndarray:
        return self.product(vector.reshape(-1))

    def _rmatvec(self, vector: np.ndarray) -> np.ndarray:
        if self.is_symmetric:
            return self._matvec(vector)
        return self.matrix.T @ vector.reshape(-1)

    @functools.cached_property
    def matrix(self) -> np.ndarray:
        """The whole matrix (parameter, parameter)."""
        if self.closed_form is not None:
            return self.closed_form()
        columns = [self.product(unit) for unit in np.eye(self.size)]
        matrix = np.stack(columns, axis=-1)
        return (matrix + matrix.T) / 2 if self.is_symmetric else matrix

    def eigh(self) -> tuple[np.ndarray, np.ndarray]:
        """The eigenvalues of a symmetric matrix, ascending, and its eigenvectors."""
        return np.linalg.eigh(self.matrix)

    def eigvalsh(self) -> np.ndarray:
        """The eigenvalues alone."""
        return np.linalg.eigvalsh(self.matrix)

    def unflatten(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        """A flat vector (parameter,) as arrays by the names of the parameters."""
        lengths = [math.prod(shape) for shape in self.shapes.values()]
        pieces = np.split(vector, np.cumsum(lengths)[:-1])
        return {
            name: piece.reshape(shape)
            for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)
        }

    def scaled(self, factor: np.ndarray) -> CurvatureOperator:
        """The matrix with rows and columns multiplied by a factor (parameter,)."""
        return type(self)(
            self.shapes,
            lambda vector: factor * self.product(factor * vector),
            self.closed_form and (lambda: factor[:, None] * self.matrix * factor),
            self.is_symmetric,
        )

    def plus_diagonal(self, values: np.ndarray) -> CurvatureOperator:
        """The matrix with values (parameter,) added to its diagonal."""
        return type(self)(
            self.shapes,
            lambda vector: self.product(vector) + values * vector,
            self.closed_form and (lambda: self.matrix + np.diag(values)),
            self.is_symmetric,
        )

    def restricted(self, layers: Sequence[str]) -> CurvatureOperator:
        """The rows and columns of the parameters whose names match a pattern. Raises
        SettingsError."""
        places = np.flatnonzero(matching_parameters(self.shapes, layers))

        def product(vector: np.ndarray) -> np.ndarray:
            whole = np.zeros(self.size)
            whole[places] = vector
            return self.product(whole)[places]

        return type(self)(
            {name: self.shapes[name] for name in _matches(self.shapes, layers)},
            product,
            self.closed_form and (lambda: self.matrix[np.ix_(places, places)]),
            self.is_symmetric,
        )


def _matches(shapes: Shapes, layers: Sequence[str]) -> list[str]:
    """The names that match a pattern; all without patterns. Raises SettingsError for a
    pattern that matches none."""
    for pattern in layers:
        if not fnmatch.filter(shapes, pattern):
            near = difflib.get_close_matches(pattern, shapes, 3, 0.4)
            names = ", ".join(near or list(shapes)[:8])
            raise SettingsError("layers", pattern, f"names such as {names}")
    return [
        name
        for name in shapes
        if not layers or any(fnmatch.fnmatch(name, pattern) for pattern in layers)
    ]


def matching_parameters(shapes: Shapes, layers: Sequence[str]) -> np.ndarray:
    """Which flat parameters have names that match a pattern, (parameter,) bool; all
    without patterns. Raises SettingsError."""
    matches = _matches(shapes, layers)
    return np.concatenate(
        [np.full(math.prod(shape), name in matches) for name, shape in shapes.items()]
    )
