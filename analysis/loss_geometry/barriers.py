"""The loss on straight lines between trained networks, before and after their hidden
units are matched.

The barrier is the largest difference between the loss on the line and the straight line
between the losses of its ends (Frankle, Dziugaite, Roy and Carbin 2020, arXiv
1912.05671). Buffers, such as the running statistics of BatchNorm, lie on a straight
line too, so that each end has its own. Hidden units can be permuted without a change of
the function; they are matched by the permutation with the largest inner product of their
weights (Ainsworth, Hayase and Srinivasa 2022, arXiv 2209.04836)."""

import functools
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import xarray as xr
from scipy.optimize import linear_sum_assignment

from analysis.linearization.frame_results import model_attributes
from analysis.linearization.training_loss import training_model
from analysis.loss_geometry.frame_measures import few_threads
from analysis.loss_geometry.parameter_planes import losses_at
from analysis.output.results import labelled
from analysis.output.tables import Column
from dynamics.recording.model_file import ModelFile
from dynamics.recording.model_loss import FlatLoss, RecordedModel
from dynamics.settings import SettingsError, check_integer
from dynamics.trajectory.diverged import valid_frames

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
        Parameters and buffers whose entries along an axis belong to the hidden units
        that are matched, by the axis. Default: those of `HIDDEN_UNITS`; none of other
        models.
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
    runs = np.flatnonzero(valid_frames(trajectory, [frame]).values)
    if len(runs) < 2:
        raise SettingsError("runs", len(runs), "two or more that have not diverged")
    units = HIDDEN_UNITS.get(trajectory.attrs["system"]) if units is None else units
    models = [training_model(trajectory, int(run), functions) for run in runs]
    rows = [model.row(0, frame) for model in models]
    buffers = [model.buffer_values(0, frame) for model in models]
    _check_units(models[0], units)
    fraction = torch.linspace(0, 1, points, dtype=rows[0].dtype)
    pairs = list(itertools.combinations(range(len(runs)), 2))
    loss = np.full((2, len(pairs), points), np.nan)  # (matched, pair, fraction)
    with few_threads(models[0], points), torch.no_grad():
        for pair, (first, second) in enumerate(pairs):
            model = models[first]
            beginning = (rows[first], buffers[first])
            ends = [(rows[second], buffers[second])]
            if units:
                ends.append(match_units(model, beginning, ends[0], units))
            for matched, end in enumerate(ends):
                line = torch.lerp(beginning[0], end[0], fraction[:, None])
                losses = _line_losses(model, beginning[1], end[1])
                places = torch.cat([line, fraction[:, None]], dim=1)
                loss[matched, pair] = losses_at(losses, places)
    straight = loss[..., :1] + fraction.numpy() * (loss[..., -1:] - loss[..., :1])
    barrier = (loss - straight).max(axis=-1)
    data: dict[str, tuple] = {}
    for matched, (prefix, words) in enumerate(
        (("", ""), ("matched_", " with matched hidden units"))
    ):
        long_name = f"training loss on the line{words}"
        on_line = {f"{prefix}loss": (loss[matched], long_name)}
        largest = {
            f"{prefix}barrier": (barrier[matched], f"barrier of the {long_name}")
        }
        data |= labelled(("pair", "fraction"), **on_line) | labelled("pair", **largest)
    first, second = trajectory["seed"].values[runs[pairs]].T
    return xr.Dataset(
        data,
        {
            "fraction": fraction.numpy(),
            "first": ("pair", first),
            "second": ("pair", second),
        },
        {
            **model_attributes(trajectory),
            "step": int(trajectory["step"].values[frame]),
        },
    )


def _line_losses(
    model: RecordedModel,
    first: Mapping[str, torch.Tensor],
    second: Mapping[str, torch.Tensor],
) -> list[FlatLoss]:
    """The loss of each batch as a function of flat parameters on a line, followed by the
    fraction of the way at which the buffers lie between those of both ends."""

    def loss(batch: Any, point: torch.Tensor) -> torch.Tensor:
        between = {
            name: torch.lerp(start, second[name], point[-1].to(start))
            for name, start in first.items()
        }
        return model.loss(between, batch, point[:-1])

    return [functools.partial(loss, batch) for batch in model.batches]


State = tuple[torch.Tensor, dict[str, torch.Tensor]]
"""Flat parameters (parameter,), and buffers by name."""


def match_units(
    model: RecordedModel, first: State, second: State, units: Units
) -> State:
    """The second state after a permutation of its hidden units: the one for which the
    inner product of the units' parameters with those of the first state is largest."""
    target = model.unflatten(first[0])
    weights = model.unflatten(second[0])
    axes = {name: axis for name, axis in units.items() if name in weights}
    first_units = _unit_weights(model, target, axes)
    second_units = _unit_weights(model, weights, axes)
    products = first_units @ second_units.T
    _, order = linear_sum_assignment(products.numpy(), maximize=True)
    state = weights | second[1]
    for name, axis in units.items():
        state[name] = state[name].index_select(axis, torch.from_numpy(order))
    row = torch.cat([state[name].reshape(-1) for name in model.shapes])
    return row, {name: state[name] for name in second[1]}


def _unit_weights(
    model: RecordedModel, weights: Mapping[str, torch.Tensor], axes: Units
) -> torch.Tensor:
    """The parameters of each hidden unit, (unit, parameter)."""
    rows = [
        weights[name].movedim(axis, 0).reshape(model.shapes[name][axis], -1)
        for name, axis in axes.items()
    ]
    return torch.cat(rows, dim=1)


BARRIER_COLUMNS = [
    Column("seeds", text=lambda row: f"{row['first']}, {row['second']}"),
    Column("barrier", "barrier", digits=4),
    Column("with matched units", "matched_barrier", digits=4),
]
BARRIER_LEGEND = """
Barrier: largest difference of the training loss on the straight line between two runs
from the straight line between the losses of its ends, on the data of the first. Matched:
the hidden units of the second run are permuted to those of the first."""


def _check_units(model: RecordedModel, units: Units | None) -> None:
    """Raise SettingsError unless all units are axes of parameters, of equal lengths."""
    buffers = model.buffer_values(0, 0).items()
    shapes = {name: tuple(value.shape) for name, value in buffers} | model.shapes
    for name in units or {}:
        if name not in shapes:
            raise SettingsError("units", name, f"parameters: {', '.join(shapes)}")
    if units and not set(units) & set(model.shapes):
        raise SettingsError("units", ", ".join(units), "a parameter beside buffers")
    lengths = {shapes[name][axis] for name, axis in (units or {}).items()}
    if len(lengths) > 1:
        raise SettingsError("units", sorted(lengths), "axes of the same length")
