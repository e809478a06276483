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
"""Settings of training, which must have their defaults: nothing is trained here."""

PERTURBED_GAIN = 2.0
"""Gain of the circuit that is perturbed, and from which descent leads to the stationary
point."""

PERTURBED = f"gain {PERTURBED_GAIN:g}"
SETTLED = "settled"
"""Name of the circuit at the stationary point with weight decay."""

CIRCUIT_GAINS = {
    **{f"gain {gain:g}": gain for gain in (1.0, PERTURBED_GAIN, 5.0, 10.0)},
    SETTLED: PERTURBED_GAIN,
}
"""Gain with which each circuit was constructed."""

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
        The variables of `local_landscape` and `circuit_accuracy` by circuit, as named
        in `CIRCUIT_GAINS`; those of `perturbation_responses` by start ("gain 2",
        "settled").

    Raises
    ------
    SettingsError
    """
    check_landscape_settings(s, decay, push, draws, steps)
    network = ClusteringHead(s)
    tokens = stability.all_sequences(s)
    sample = sample_sequences(s, np.array([0]), "train")[0].astype(np.int64)
    circuits = _circuit_parameters(network, tokens, decay)
    decays = {name: decay if name == SETTLED else 0.0 for name in circuits}
    landscapes = {
        name: stability.local_landscape(
            network, parameters, tokens, sample, decays[name]
        )
        for name, parameters in circuits.items()
    }
    responses = {}
    for name in (PERTURBED, SETTLED):
        loss = stability.RegularizedLoss(network, tokens, decays[name])
        lr = 1 / float(landscapes[name]["eigenvalue"][-1])
        responses[name] = perturbation_responses(
            loss, circuits[name], lr, push, draws, steps
        )
    measures = circuit_measures(network, torch.stack(list(circuits.values())))
    accuracy = (measures["accuracy"], "accuracy over the population")
    result = _join_by_circuit(landscapes, responses)
    return result.assign(labelled("circuit", circuit_accuracy=accuracy))


def _circuit_parameters(
    network: ClusteringHead, tokens: np.ndarray, decay: float
) -> dict[str, torch.Tensor]:
    """Flat parameters of the circuits of `CIRCUIT_GAINS`. Raises SettingsError if there
    are too few hidden units."""
    s = network.settings
    circuits = {
        name: stability.flat_parameters(network, ideal_circuit(s, gain))
        for name, gain in CIRCUIT_GAINS.items()
        if name != SETTLED
    }
    loss = stability.RegularizedLoss(network, tokens, decay)
    settled = stability.find_stationary_point(loss, circuits[PERTURBED])
    return {**circuits, SETTLED: settled.row}


def _join_by_circuit(
    landscapes: dict[str, xr.Dataset], responses: dict[str, xr.Dataset]
) -> xr.Dataset:
    """Local landscapes by `circuit` and responses to perturbations by `start`."""
    circuits = xr.concat(landscapes.values(), pd.Index(landscapes, name="circuit"))
    starts = xr.concat(
        responses.values(),
        pd.Index(responses, name="start"),
        data_vars="all",
        coords="minimal",
        compat="override",
        join="override",
    )
    return circuits.assign_coords(starts.coords).assign(starts.data_vars)


def perturbation_responses(
    loss: stability.RegularizedLoss,
    parameters: torch.Tensor,
    lr: float,
    push: Sequence[float],
    draws: int,
    steps: int,
) -> xr.Dataset:
    """Gradient descent from flat parameters after each perturbation, by step and
    perturbation (dimension `pushed`).

    push: lengths of perturbations, as fractions of the norm of the parameters."""
    network = loss.network
    starts = [parameters[None]]
    kinds = ["none"]
    sizes = [0.0]
    for size in push:
        perturbations = stability.random_perturbations(network, parameters, size, draws)
        del perturbations["none"]
        for kind, displacements in perturbations.items():
            starts.append(parameters + displacements)
            kinds += [kind] * len(displacements)
            sizes += [size] * len(displacements)
    path = stability.gradient_descent(
        loss, torch.cat(starts), lr, steps, DESCENT_FRAMES
    )
    frames = [circuit_measures(network, frame) for frame in path.rows]
    values = {name: np.stack([frame[name] for frame in frames]) for name in frames[0]}
    losses = [[float(loss(start)) for start in frame] for frame in path.rows]
    values["pushed_loss"] = np.array(losses)
    values["distance"] = (path.rows - path.rows[:, :1]).norm(dim=-1).numpy()
    for symmetry in stability.SYMMETRIES:
        directions = stability.symmetry_breaking_directions(network, symmetry)
        values[f"{symmetry}_apart"] = (path.rows @ directions).norm(dim=-1).numpy()
    values["flow_time"] = path.time
    return xr.Dataset(
        {
            name: (("step", "pushed"), value, dimensionless(_MEANINGS[name]))
            for name, value in values.items()
        },
        {"step": path.steps, "kind": ("pushed", kinds), "push": ("pushed", sizes)},
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


def circuit_measures(
    network: ClusteringHead, parameters: torch.Tensor
) -> dict[str, np.ndarray]:
    """Largest order and value fraction, and accuracy, at several flat parameters
    (start, parameter): (start,) each."""
    s = network.settings
    weights = network.unflatten(parameters)
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
    table_rows = []
    for name in map(str, result["circuit"].values):
        one = result.sel(circuit=name)
        spectrum = one["eigenvalue"].values
        row = {
            "circuit": name,
            "gain": CIRCUIT_GAINS[name],
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
            row[f"{part}_least"] = values[0] if values.size else np.nan
            row[f"{part}_largest"] = values[-1] if values.size else np.nan
        table_rows.append(row)
    return make_table(table_rows)


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
    headings = {
        "order_share": "order fraction",
        "value_share": "value fraction",
        "distance": "distance",
    }
    table_rows = []
    kinds = result["kind"].values
    sizes = result["push"].values
    ends = result.isel(step=[0, -1])
    for start in result["start"].values:
        for kind, size in dict.fromkeys(
            zip(kinds.tolist(), sizes.tolist(), strict=True)
        ):
            draws = (kinds == kind) & (sizes == size)
            some = ends.sel(start=start).isel(pushed=draws)
            worst = int(some["accuracy"][-1].values.argmin())
            row = {"start": str(start), "kind": kind, "size": size or None}
            for frame, end in enumerate(("before", "after")):
                for name in headings:
                    row[f"{name}_{end}"] = float(some[name][frame].max(skipna=False))
                row[f"accuracy_{end}"] = float(some["accuracy"][frame, worst])
            table_rows.append(row)
    columns = [
        Column("from", "start"),
        Column("perturbed in", "kind"),
        Column("by", "size"),
    ]
    for name, heading in headings.items():
        columns.append(Column(heading, f"{name}_before", text=_short))
        columns.append(Column("after", f"{name}_after", text=_short))
    columns.append(Column("accuracy %", "accuracy_before", 1, scale=100))
    columns.append(Column("after", "accuracy_after", 1, scale=100))
    return format_table(make_table(table_rows), columns)
