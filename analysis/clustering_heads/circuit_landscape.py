"""The loss landscape around ideal circuits: gradients, Hessians, and gradient descent
after perturbations.

Constructed circuits (`analysis.clustering_heads.constructions`) with different gains,
the sizes of what their MLP adds, are compared with the stationary point that one of
them reaches under weight decay. That circuit is perturbed in symmetry-breaking and in
all directions, both as constructed and at the stationary point. The method is described
in `analysis.clustering_heads.stability`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
import xarray as xr

from analysis.clustering_heads import invariances, stability
from analysis.clustering_heads.constructions import ideal_circuit
from analysis.output.results import dimensionless, labelled
from analysis.output.tables import Column, format_table, make_table
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.threads import single_torch_thread
from dynamics.settings import SettingsError, SparseSettings, check_integer, check_real
from dynamics.tasks import sample_sequences, sparse_sum

_TRAINING_SETTINGS = (
    "lr",
    "optimizer",
    "weight_decay",
    "beta1",
    "beta2",
    "momentum",
    "batch",
    "mlp_lr_discount",
    "assembler_decay",
)
"""Settings of training, which have no effect here."""

_GAINS = (1.0, 2.0, 5.0, 10.0)

PUSHED_GAIN = 2.0
"""Gain of the circuit that is perturbed, and from which descent leads to the stationary
point."""

REST_GRADIENT = 1e-8
"""Norm of the gradient below which a circuit counts as stationary."""

DESCENT_FRAMES = 16
"""Recorded frames of a descent."""


def check_landscape_settings(
    s: SparseSettings, decay: float, push: Sequence[float], draws: int, steps: int
) -> None:
    """Raise SettingsError for settings without an ideal circuit, and for values out of
    range."""
    # no batch is above the data
    usual = SparseSettings(batch=min(SparseSettings.batch, s.data))
    for name in _TRAINING_SETTINGS:
        value = getattr(s, name)
        allowed = "no value here: gradient descent on all sequences"
        if value != getattr(usual, name):
            raise SettingsError(name, value, allowed)
    check_real("decay", decay, positive=True, up_to=1)
    for size in push:
        check_real("push", size, positive=True, up_to=1)
    if not push or len(set(push)) != len(push):
        raise SettingsError("push", push, "one length or several different ones")
    check_integer("draws", draws, 1, 100)
    check_integer("steps", steps, 1, 100_000)
    why = "for which there is a circuit built by hand"
    if s.vocab > 3:
        raise SettingsError("vocab", s.vocab, f"2 or 3, {why}")
    if s.dim < 2:
        raise SettingsError("dim", s.dim, f"2 or more, {why}")


@single_torch_thread()
def fixed_point_landscape(
    s: SparseSettings,
    decay: float,
    push: Sequence[float],
    draws: int = 1,
    steps: int = 300,
) -> xr.Dataset:
    """Gradients and Hessians at ideal circuits, and gradient descent after
    perturbations.

    Parameters
    ----------
    s : SparseSettings
        Task and network, with p = 2 or 3.
    decay : float
        Weight decay under which one circuit is moved to a stationary point.
    push : sequence of float
        Lengths of perturbations, as fractions of the norm of all parameters.
    draws : int
        Random perturbations of each kind and length.
    steps : int
        Steps of gradient descent after a perturbation, with the learning rate 1 /
        largest eigenvalue of the Hessian.

    Returns
    -------
    xr.Dataset
        The variables of `local_landscape` and `circuit_accuracy` by circuit ("gain 1",
        ..., "settled"); those of `perturbation_responses` by start ("gain 2",
        "settled").

    Raises
    ------
    SettingsError
    """
    check_landscape_settings(s, decay, push, draws, steps)
    network = ClusteringHead(s)
    tokens = stability.all_sequences(s)
    sample = sample_sequences(s, np.array([0]), "train")[0].astype(np.int64)
    try:
        rows = {
            f"gain {gain:g}": stability.flat_parameters(network, ideal_circuit(s, gain))
            for gain in _GAINS
        }
    except SettingsError:
        raise
    except ValueError as error:
        allowed = f"settings with an ideal circuit: {error}"
        raise SettingsError("hidden", s.hidden, allowed) from None
    built = f"gain {PUSHED_GAIN:g}"
    regularized = stability.RegularizedLoss(network, tokens, decay)
    rows["settled"] = stability.find_stationary_point(regularized, rows[built]).row
    decays = {name: decay if name == "settled" else 0.0 for name in rows}
    points = {
        name: stability.local_landscape(network, row, tokens, sample, decays[name])
        for name, row in rows.items()
    }
    responses = []
    for name in (built, "settled"):
        loss = stability.RegularizedLoss(network, tokens, decays[name])
        lr = 1 / float(points[name]["eigenvalue"][-1])
        responses.append(
            perturbation_responses(loss, rows[name], lr, push, draws, steps)
        )
    circuits = xr.concat(points.values(), pd.Index(points, name="circuit"))
    starts = xr.concat(
        responses,
        pd.Index([built, "settled"], name="start"),
        data_vars="all",
        coords="minimal",
        compat="override",
        join="override",
    )
    broken = broken_invariances(network, torch.stack(list(rows.values())))
    accuracy = (broken["accuracy"], "accuracy over the population")
    result = circuits.assign_coords(starts.coords).assign(starts.data_vars)
    return result.assign(labelled("circuit", circuit_accuracy=accuracy))


def perturbation_responses(
    loss: stability.RegularizedLoss,
    row: torch.Tensor,
    lr: float,
    push: Sequence[float],
    draws: int,
    steps: int,
) -> xr.Dataset:
    """Gradient descent from flat parameters after each perturbation, by step and
    perturbation (`pushed`)."""
    network = loss.network
    starts = [row[None]]
    names = [("none", 0.0)]
    for size in push:
        perturbations = stability.random_perturbations(network, row, size, draws)
        del perturbations["none"]
        for kind, moves in perturbations.items():
            starts.append(row + moves)
            names += [(kind, size)] * len(moves)
    start_rows = torch.cat(starts)
    path = stability.gradient_descent(loss, start_rows, lr, steps, DESCENT_FRAMES)
    frames = [broken_invariances(network, rows) for rows in path.rows]
    values = {name: np.stack([frame[name] for frame in frames]) for name in frames[0]}
    losses = [[float(loss(row)) for row in rows] for rows in path.rows]
    values["pushed_loss"] = np.array(losses)
    values["distance"] = (path.rows - path.rows[:, :1]).norm(dim=-1).numpy()
    for symmetry in stability.SYMMETRIES:
        directions = stability.symmetry_breaking_directions(network, symmetry)
        values[f"{symmetry}_apart"] = (path.rows @ directions).norm(dim=-1).numpy()
    values["flow_time"] = path.time
    kinds, sizes = zip(*names, strict=True)
    return xr.Dataset(
        {
            name: (("step", "pushed"), value, dimensionless(_MEANINGS[name]))
            for name, value in values.items()
        },
        {
            "step": path.steps,
            "kind": ("pushed", list(kinds)),
            "push": ("pushed", list(sizes)),
        },
    )


_MEANINGS = {
    "order_share": "largest order fraction of two non-spurious positions",
    "value_share": "largest value fraction of a spurious position",
    "accuracy": "accuracy over the population",
    "pushed_loss": "loss, with weight decay",
    "distance": "distance from the circuit that was not perturbed",
    "order_apart": "distance that breaks order",
    "suffix_apart": "distance that breaks suffix",
    "flow_time": "time of the gradient flow",
}


def broken_invariances(
    network: ClusteringHead, rows: torch.Tensor
) -> dict[str, np.ndarray]:
    """Largest order and value fraction, and accuracy, at several flat parameters
    (start, parameter): (start,) each."""
    s = network.settings
    weights = network.unflatten(rows)
    probe = invariances.invariance_probe(s)
    xi = invariances.batched_sequence_embeddings(network, weights, probe.tokens)[0]
    predicted = (
        network.transform(weights, xi[:, probe.base]) @ weights["embedding"].mT
    ).argmax(-1)
    correct = predicted == torch.from_numpy(sparse_sum(probe.tokens[probe.base], s))
    spurious = [t for t in range(s.length) if t not in s.counting]
    by_value = invariances.token_variance_fractions(xi.numpy(), probe)
    by_value = by_value.mean(axis=(-2, -1))[:, spurious]
    by_order = invariances.order_variance_fractions(xi.numpy(), probe)
    return {
        "order_share": by_order.max(axis=(-2, -1)),
        "value_share": by_value.max(axis=-1, initial=0),
        "accuracy": correct.double().mean(-1).numpy(),
    }


# ------------------------------------------------------------------------------- tables


def landscape_table(result: xr.Dataset) -> pd.DataFrame:
    """A row for each circuit; eigenvalues in symmetry-breaking directions are given by
    their range."""
    rows = []
    for name in result["circuit"].values:
        one = result.sel(circuit=name)
        spectrum = one["eigenvalue"].values
        row = {
            "circuit": str(name),
            "gain": PUSHED_GAIN if name == "settled" else float(name.split()[1]),
            "accuracy": float(one["circuit_accuracy"]),
            "loss": float(one["loss"]),
            "gradient": float(one["gradient"]),
        }
        for prefix in ("", "sample_"):
            for part, norm in one[f"{prefix}broken"].to_series().items():
                row[f"{prefix}{part}_broken"] = norm
        negative = spectrum < -stability.NULL_TOLERANCE * np.abs(spectrum).max()
        row |= {"least_eigenvalue": spectrum[0], "largest_eigenvalue": spectrum[-1]}
        row["negative_eigenvalues"] = float(negative.sum())
        for part in result["part"].values:
            values = one[f"{part}_eigenvalue"].values
            row[f"{part}_least"], row[f"{part}_largest"] = (
                values[[0, -1]] if values.size else (np.nan, np.nan)
            )
        rows.append(row)
    return make_table(rows)


def _short(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.1e}"


def _range_column(part: str) -> Column:
    def text(row: dict) -> str:
        ends = [row[f"{part}_least"], row[f"{part}_largest"]]
        return "-" if np.isnan(ends[0]) else " .. ".join(map(_short, ends))

    return Column(part, text=text)


LANDSCAPE_COLUMNS = (
    Column("circuit", "circuit"),
    Column("accuracy %", "accuracy", digits=1, scale=100),
    Column("loss", "loss", text=_short),
    Column("|gradient|", "gradient", text=_short),
    Column("breaking order", "order_broken", text=_short),
    Column("of a sample", "sample_order_broken", text=_short),
    Column("least eigenvalue", "least_eigenvalue", text=_short),
    Column("largest", "largest_eigenvalue", text=_short),
    *map(_range_column, stability.SYMMETRIES),
)


LANDSCAPE_LEGEND = """breaking order: norm of the component of the gradient that breaks the permutation symmetry of
non-spurious positions, for the loss over all sequences; of a sample: the same for a training sample
order, suffix: range of the eigenvalues of the Hessian in directions that break the symmetry of non-spurious positions
(order) or of spurious positions (suffix)"""


def format_perturbation_table(result: xr.Dataset) -> str:
    """A text table of each kind of perturbation before and after gradient descent, for
    the worst of its draws."""
    measures = ("order_share", "value_share", "distance")
    rows = []
    kinds = result["kind"].values
    sizes = result["push"].values
    ends = result.isel(step=[0, -1])
    for start in result["start"].values:
        for kind, size in dict.fromkeys(
            zip(kinds.tolist(), sizes.tolist(), strict=True)
        ):
            pushed = (kinds == kind) & (sizes == size)
            some = ends.sel(start=start).isel(pushed=pushed)
            worst = int(some["accuracy"][-1].values.argmin())
            row = {"start": str(start), "kind": kind, "size": size or None}
            for end in (0, 1):
                for name in measures:
                    row[f"{name} {end}"] = float(some[name][end].max(skipna=False))
                row[f"accuracy {end}"] = float(some["accuracy"][end, worst])
            rows.append(row)
    columns = [
        Column("from", "start"),
        Column("perturbed in", "kind"),
        Column("by", "size"),
    ]
    headings = ("order fraction", "value fraction", "distance")
    for heading, name in zip(headings, measures, strict=True):
        columns.append(Column(heading, f"{name} 0", text=_short))
        columns.append(Column("after", f"{name} 1", text=_short))
    columns.append(Column("accuracy %", "accuracy 0", 1, scale=100))
    columns.append(Column("after", "accuracy 1", 1, scale=100))
    return format_table(make_table(rows), columns)
