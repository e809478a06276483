"""Attribution of the spikes of a recorded model's loss to its layers.

The loss of the model file is computed at the recorded frames around a spike. The
examined change is the one between two frames with the largest rise before half of the
spike (`analysis.transitions.spike_attribution.locate_loss_rise`): an update, if each
step is recorded. It is repeated with one part changed, and the fraction of the rise
that remains is measured:

frozen      the parameters of one layer stay as they were
alone       only the parameters of this layer change
unflipped   vectors that flip before a named layer of normalisation leave it as before

A layer is the module that holds the parameters. The cause is the layer whose freezing
leaves the least of the rise, if that is less than half; a flip is a move by more than
the length of the vector that turns it by more than a right angle (VC section 4.3). All
values are dimensionless."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr

from analysis.transitions.spike_attribution import (
    RISE_THRESHOLD,
    flipped_vectors,
    locate_loss_rise,
)
from analysis.transitions.spike_replays import MAX_FRAMES_BEFORE_PEAK, RecordedSpike
from dynamics.progress import progress_bar
from dynamics.recording.model_file import ModelFile
from dynamics.recording.model_loss import FlatLoss, ModelLoss, RecordedModel
from dynamics.recording.quantities import near_names
from dynamics.recording.recorded_network import RecordedNetwork, recorded_loss
from dynamics.settings import SettingsError


def attribute_own_spikes(
    trajectory: xr.Dataset,
    spikes: Sequence[RecordedSpike],
    functions: ModelFile,
    normalised: str | None = None,
) -> xr.Dataset:
    """Attribute spikes of a recorded model to its layers.

    Parameters
    ----------
    trajectory : xarray.Dataset
        With variables ``parameter.NAME``.
    spikes : sequence of RecordedSpike
        From `recorded_spikes`.
    functions : ModelFile
        With `loss` and `batches`, or what the cross-entropy of training pairs needs.
    normalised : str, optional
        Name of a submodule of the module of the model file that normalises the last
        axis of its first argument.

    Returns
    -------
    xarray.Dataset
        By spike: `run`, `seed` and `step`; `at`, the step before the examined change,
        -1 if the loss does not rise; `loss_before` and `loss_after`; `cause`, a layer
        or empty; with `normalised`, `flipped`, the fraction of vectors that flip, and
        `unflipped`. By spike and layer: `frozen` and `alone`. NaN without a rise.

    Raises
    ------
    TrajectoryError, SettingsError
        If no parameters are recorded, or the loss cannot be computed.
    """
    loss = recorded_loss(trajectory, functions)
    norm = None
    if normalised is not None:
        loss, norm = _normalisation(trajectory, functions, normalised)
    model = RecordedModel(trajectory, loss)
    layers = layer_masks(model)
    rows = [
        _examine(model, spike, layers, norm)
        for spike in progress_bar(spikes, desc="spikes")
    ]
    variables = {}
    for name in _VARIABLES + (_NORM_VARIABLES if norm is not None else ()):
        dims = ("spike", "layer") if name in _BY_LAYER else ("spike",)
        shape = (len(rows), len(layers))[: len(dims)]
        variables[name] = (dims, np.array([row[name] for row in rows]).reshape(shape))
    result = xr.Dataset(variables, {"layer": list(layers)})
    for name in ("run", "seed", "step"):
        values = np.array([getattr(spike, name) for spike in spikes], np.int64)
        result[name] = ("spike", values)
    return result


_VARIABLES = ("at", "loss_before", "loss_after", "cause", "frozen", "alone")
_NORM_VARIABLES = ("flipped", "unflipped")
_BY_LAYER = ("frozen", "alone")


def _normalisation(
    trajectory: xr.Dataset, model: ModelFile, name: str
) -> tuple[ModelLoss, torch.nn.Module]:
    """The loss of a model file, and the named submodule of its module. Raises
    SettingsError."""
    if model.module is None or model.loss is not None:
        allowed = "a name for a model file with module(config) and without loss()"
        raise SettingsError("normalised", name, allowed)
    network = RecordedNetwork(trajectory, model)
    modules = dict(network.module(network.parameters(0, 0)).named_modules())
    if name not in modules:
        raise SettingsError("normalised", name, near_names(name, list(modules)[1:]))
    return network.loss_and_batches(), modules[name]


def layer_masks(model: RecordedModel) -> dict[str, torch.Tensor]:
    """Which of the flat parameters belong to each layer, (parameter,) bool, by the name
    of the module that holds them."""
    owners = [name.rpartition(".")[0] or name for name in model.shapes]
    places = [
        torch.full((length,), at)
        for at, length in zip(map(owners.index, owners), model.lengths, strict=True)
    ]
    flat = torch.cat(places)
    return {owner: flat == owners.index(owner) for owner in dict.fromkeys(owners)}


def own_spike_rows(result: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each spike, with `frozen` and `alone` of its cause."""
    rows = []
    for at in range(result.sizes["spike"]):
        spike = result.isel(spike=at)
        row = {
            str(name): value.item() for name, value in spike.items() if not value.dims
        }
        for name in ("frozen", "alone"):
            known = spike[name].sel(layer=row["cause"]) if row["cause"] else np.nan
            row[name] = float(known)
        rows.append(row)
    return rows


class _Change(NamedTuple):
    """The parameters before and after the examined change."""

    before: torch.Tensor
    after: torch.Tensor


def _examine(
    model: RecordedModel,
    spike: RecordedSpike,
    layers: dict[str, torch.Tensor],
    norm: torch.nn.Module | None,
) -> dict[str, Any]:
    """The variables of one spike."""
    steps = model.trajectory["step"].values
    peak = int(np.searchsorted(steps, spike.step))
    frames = range(max(0, peak - MAX_FRAMES_BEFORE_PEAK), min(peak + 2, len(steps)))
    with torch.no_grad():
        losses = np.array(
            [
                _mean_loss(model.losses(spike.run, frame), model.row(spike.run, frame))
                for frame in frames
            ]
        )
        begin, level = _foot(losses, peak - frames[0])
        rise = locate_loss_rise(losses[begin:], level)
        nothing = np.full(len(layers), np.nan)
        if rise is None:
            return {
                **dict.fromkeys(
                    ("loss_before", "loss_after", *_NORM_VARIABLES), np.nan
                ),
                "at": -1,
                "cause": "",
                "frozen": nothing,
                "alone": nothing,
            }
        frame = frames[begin + rise.step]
        change = _Change(*(model.row(spike.run, at) for at in (frame, frame + 1)))
        first, last = losses[begin + rise.step :][:2]

        batch_losses = model.losses(spike.run, frame + 1)

        def remaining(row: torch.Tensor) -> float:
            return (_mean_loss(batch_losses, row) - first) / (last - first)

        masks = layers.values()
        frozen = [remaining(torch.where(m, change.before, change.after)) for m in masks]
        alone = [remaining(torch.where(m, change.after, change.before)) for m in masks]
        least = int(np.argmin(frozen))
        result = {
            "at": int(steps[frame]),
            "loss_before": first,
            "loss_after": last,
            "cause": list(layers)[least] if frozen[least] < RISE_THRESHOLD else "",
            "frozen": frozen,
            "alone": alone,
        }
        if norm is not None:
            result |= _flips(norm, change, remaining)
    return result


def _foot(losses: np.ndarray, peak: int) -> tuple[int, float]:
    """The last frame before a spike in which the losses (frame,) of the model are at
    most a tenth of its height above their smallest value, and this value.

    The largest loss may be one frame beside the recorded peak. Without such a frame it
    is the lowest one before the spike. A lower spike before it is thus left out."""
    level = float(losses.min())
    first = max(peak - 1, 0)
    top = first + int(np.argmax(losses[first : peak + 2]))
    before = losses[: max(top, 1)]
    low = np.flatnonzero(before <= level + 0.1 * (losses[top] - level))
    return int(low[-1] if low.size else np.argmin(before)), level


def _mean_loss(losses: Sequence[FlatLoss], row: torch.Tensor) -> float:
    """The mean loss of the batches at flat parameters."""
    return float(sum(float(loss(row)) for loss in losses)) / len(losses)


def _flips(
    norm: torch.nn.Module, change: _Change, remaining: Callable[[torch.Tensor], float]
) -> dict[str, float]:
    """The fraction of the normalised vectors that flip in a change, and the fraction of
    the rise that remains if they leave the norm as before."""
    calls: list[list[tuple[torch.Tensor, torch.Tensor]]] = []
    for row in change:
        with _outputs_of(norm, lambda at, x, y: None) as recorded:
            remaining(row)
        calls.append(recorded)
    flips = [flipped_vectors(x, y) for (x, _), (y, _) in zip(*calls, strict=True)]

    with _outputs_of(
        norm,
        lambda at, x, y: torch.where(flips[at][..., None], calls[0][at][1], y),
    ):
        left = remaining(change.after)
    flipped = torch.cat([flip.flatten() for flip in flips]).double().mean()
    return {"flipped": float(flipped), "unflipped": left}


@contextmanager
def _outputs_of(
    norm: torch.nn.Module, replace: Callable[..., torch.Tensor | None]
) -> Iterator[list[tuple[torch.Tensor, torch.Tensor]]]:
    """Record the inputs and outputs of a module at each call, and replace the outputs
    by those of a function of the number of the call and both, unless it returns
    None."""
    calls: list[tuple[torch.Tensor, torch.Tensor]] = []

    def hook(module: Any, arguments: Any, output: torch.Tensor) -> torch.Tensor | None:
        calls.append((arguments[0].detach(), output.detach()))
        return replace(len(calls) - 1, *calls[-1])

    handle = norm.register_forward_hook(hook)
    try:
        yield calls
    finally:
        handle.remove()
