"""The spectral density of the Hessian of the training loss, or of its Gauss-Newton
matrix, along training (`analysis.linearization.operator_spectra`)."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import xarray as xr

from analysis.linearization.frame_results import Variables
from analysis.linearization.loss_operators import (
    gauss_newton_operator,
    hessian_operator,
)
from analysis.linearization.operator_spectra import (
    WHOLE,
    SpectralMeasure,
    spectral_measure,
)
from analysis.loss_geometry.frame_measures import measure_frames
from dynamics.recording.model_file import ModelFile
from dynamics.recording.model_loss import RecordedModel
from dynamics.settings import check_integer

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
POINTS = 400
"""Number of points of a density."""
WIDTH = 0.005
"""Standard deviation s of its Gaussians, as a fraction of the range."""


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
            operator = gauss_newton_operator(model, frame)
        else:
            operator = hessian_operator(model, 0, frame)
        return _frame_variables(spectral_measure(operator, steps, probes, whole))

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


def _frame_variables(measure: SpectralMeasure) -> dict[str, Any]:
    lowest = measure.values.min()
    largest = measure.values.max()
    width = WIDTH * ((largest - lowest) or 1.0)
    points = np.linspace(lowest - 4 * width, largest + 4 * width, POINTS)
    return {
        "largest": largest,
        "lowest": lowest,
        "trace": measure.trace(),
        "saddle_index": measure.saddle_index(),
        "null_fraction": measure.null_fraction(),
        "eigenvalue": points,
        "density": measure.density(points, width),
    }
