"""The loss on straight lines between trained networks, before and after their hidden
units are matched.

The barrier is the largest difference between the loss on the line and the straight line
between the losses of its ends (Frankle, Dziugaite, Roy and Carbin 2020, arXiv
1912.05671). Hidden units can be permuted without a change of the function; they are
matched by the permutation with the largest inner product of their weights (Ainsworth,
Hayase and Srinivasa 2022, arXiv 2209.04836)."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import xarray as xr
from scipy.optimize import linear_sum_assignment

from analysis.loss_geometry.frame_measures import few_threads
from analysis.loss_geometry.parameter_planes import losses_at
from analysis.loss_geometry.training_loss import training_model
from analysis.output.results import dimensionless
from dynamics.recording.model_file import ModelFile
from dynamics.recording.model_loss import RecordedModel
from dynamics.settings import SettingsError, check_integer
from dynamics.trajectory.diverged import valid_frames
from dynamics.trajectory.schema import read_settings

Units = Mapping[str, int]
"""Variables whose entries along an axis belong to the hidden units of a layer."""

HIDDEN_UNITS: Mapping[str, Units] = {
    "modular": {"hidden_weight": 0, "hidden_bias": 0, "output_weight": 1},
    "sparse": {"receptor": 0, "receptor_bias": 0, "assembler": 0},
}
"""The hidden units of the networks of this package, by system."""


def loss_barriers(
    trajectory: xr.Dataset,
    frame: int = -1,
    points: int = 21,
    units: Units | None = None,
    functions: ModelFile | None = None,
) -> xr.Dataset:
    """The training loss on the lines between all pairs of runs, at one frame.

    Parameters
    ----------
    trajectory : xr.Dataset
        Two or more runs of a network of this package with its weights, or of a recorded
        model.
    frame : int
        Index along `step`. Runs that have diverged before are left out.
    points : int
        Number of points on a line, with its ends.
    units : mapping of str to int, optional
        Parameters whose entries along an axis belong to the hidden units that are
        matched, by the axis. Default: those of `HIDDEN_UNITS`; none of other models.
    functions : ModelFile, optional
        Functions of a recorded model.

    Returns
    -------
    xr.Dataset
        `loss` and `matched_loss` (pair, fraction), the loss of the data of the first run
        of a pair on the way to the second, and to the second with its units matched;
        `barrier` and `matched_barrier` (pair); coordinates `first` and `second` (pair),
        the seeds. Values after matching are NaN without units.

    Raises
    ------
    SettingsError
        If fewer than two runs are left, or `units` names other parameters.
    TrajectoryError
        If no weights are recorded.

    Examples
    --------
    >>> from dynamics import ModularSettings, simulate
    >>> short = simulate(ModularSettings(n=5), runs=2, steps=20, progress=False)
    >>> loss_barriers(short, points=5)["barrier"].dims
    ('pair',)
    """
    check_integer("points", points, 3, 100_001)
    runs = np.flatnonzero(valid_frames(trajectory).values[:, frame])
    if len(runs) < 2:
        raise SettingsError("runs", len(runs), "two or more that have not diverged")
    units = HIDDEN_UNITS.get(trajectory.attrs["system"]) if units is None else units
    models = [training_model(trajectory, int(run), functions) for run in runs]
    rows = [model.row(0, frame) for model in models]
    _check_units(models[0], units)
    fraction = torch.linspace(0, 1, points, dtype=rows[0].dtype)
    lines = []
    with few_threads(models[0], points), torch.no_grad():
        for first, second in itertools.combinations(range(len(runs)), 2):
            losses = models[first].losses(0, frame)
            ends = [rows[second]]
            if units:
                ends.append(match_units(models[0], rows[first], rows[second], units))
            on_lines = [
                losses_at(losses, torch.lerp(rows[first], end, fraction[:, None]))
                for end in ends
            ]
            lines.append(
                np.stack(on_lines if units else [*on_lines, np.nan * on_lines[0]])
            )
    loss = np.stack(lines)  # (pair, matched, fraction)
    straight = loss[..., :1] + fraction.numpy() * (loss[..., -1:] - loss[..., :1])
    barrier = (loss - straight).max(axis=-1)
    pairs = np.array(list(itertools.combinations(trajectory["seed"].values[runs], 2)))
    words = ("", "with matched hidden units")
    data: dict[str, Any] = {}
    for index, prefix in enumerate(("", "matched_")):
        long_name = f"training loss on the line {words[index]}".strip()
        data[f"{prefix}loss"] = (
            ("pair", "fraction"),
            loss[:, index],
            dimensionless(long_name),
        )
        data[f"{prefix}barrier"] = (
            "pair",
            barrier[:, index],
            dimensionless(f"barrier of the {long_name}"),
        )
    settings = read_settings(trajectory)
    return xr.Dataset(
        data,
        {
            "fraction": fraction.numpy(),
            "first": ("pair", pairs[:, 0]),
            "second": ("pair", pairs[:, 1]),
        },
        {
            "system": settings.system,
            "model": getattr(settings, "model", settings.system),
            "step": int(trajectory["step"].values[frame]),
        },
    )


def match_units(
    model: RecordedModel, first: torch.Tensor, second: torch.Tensor, units: Units
) -> torch.Tensor:
    """The second parameters (parameter,) with their hidden units permuted so that the
    inner product with the first ones is largest."""
    target, weights = model.unflatten(first), model.unflatten(second)
    name, axis = next(iter(units.items()))
    count = model.shapes[name][axis]
    first_units, second_units = (
        torch.cat(
            [
                by_name[name].movedim(axis, 0).reshape(count, -1)
                for name, axis in units.items()
            ],
            dim=1,
        )
        for by_name in (target, weights)
    )
    products = first_units @ second_units.T
    _, order = linear_sum_assignment(products.numpy(), maximize=True)
    permuted = {
        name: value.index_select(units[name], torch.from_numpy(order))
        if name in units
        else value
        for name, value in weights.items()
    }
    return torch.cat([value.reshape(-1) for value in permuted.values()])


def _check_units(model: RecordedModel, units: Units | None) -> None:
    """Raise SettingsError unless all units are axes of parameters, of equal lengths."""
    for name in units or {}:
        if name not in model.shapes:
            allowed = f"parameters: {', '.join(model.shapes)}"
            raise SettingsError("units", name, allowed)
    lengths = {model.shapes[name][axis] for name, axis in (units or {}).items()}
    if len(lengths) > 1:
        raise SettingsError("units", sorted(lengths), "axes of the same length")
