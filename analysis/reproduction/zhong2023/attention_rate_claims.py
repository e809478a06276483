"""ZL: how networks add by the attention rate, from constant attention (0) to softmax
attention (1)."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from analysis import progress_measures
from analysis.plots.attention_rate_figure import networks_in_range
from analysis.reproduction.verification import (
    Agrees,
    Estimate,
    Measure,
    Measurement,
    Params,
    RequiredRuns,
    Runner,
    declare_experiment,
    experiment_runs,
    measure_ensembles,
    part,
    reported_number,
    samples,
)
from analysis.statistics.intervals import NO_INTERVAL
from analysis.structures.printed_tables import ZL_RUNS
from dynamics.networks.from_trajectory import network_of, weights
from dynamics.settings import TransformerSettings

DIMS = ("attention_rate", "run")
MEASURES = {
    "symmetricity": "gradient symmetricity at the end of training",
    "irrelevance": "distance irrelevance at the end of training",
    "circularity": (
        "circularity of the first four principal components at the end of training"
    ),
}
QUANTITIES = {
    "test_accuracy": "accuracy of the test pairs at the end of training, %",
    **MEASURES,
    **{
        f"earlier_{name}": f"{words.split(' at ')[0]} in the frame before"
        for name, words in MEASURES.items()
    },
}
CIRCULAR = 0.995
"""Circularity from which ZL's table counts a network as circular."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks at each attention rate, each with its number of epochs, and single
    networks at further rates, whose seeds are their numbers."""
    every = params["every"]
    alike = zip(params["rates"], params["epochs"], strict=True)
    needs = [
        experiment_runs(
            TransformerSettings(attention_rate=rate),
            {**params, "epochs": epochs},
            every,
        )
        for rate, epochs in alike
    ]
    for seed, rate in enumerate(params.get("single_rates", [])):
        settings = TransformerSettings(attention_rate=rate)
        needs.append(
            RequiredRuns(settings, 1, params["single_epochs"], every, seed=seed)
        )
    return [dataclasses.replace(need, must=("attention_rate",)) for need in needs]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Accuracy and measures of each network, (attention_rate, run)."""
    evidence = measure_ensembles(
        runner, ensembles(params), QUANTITIES, _measure_runs, DIMS
    )
    rates = [*params["rates"], *params.get("single_rates", [])]
    return evidence.assign_coords(attention_rate=rates).sortby("attention_rate")


def _measure_runs(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    """The quantities of one ensemble, each (run,)."""
    accuracy = trajectory["accuracy"].sel(split="test").isel(step=-1).values
    earlier = network_measures(trajectory, -2)
    return {
        "test_accuracy": 100 * accuracy,
        **network_measures(trajectory),
        **{f"earlier_{name}": values for name, values in earlier.items()},
    }


def network_measures(trajectory: xr.Dataset, frame: int = -1) -> dict[str, np.ndarray]:
    """Symmetricity, irrelevance and circularity of each network in a recorded frame,
    each (run,)."""
    network: Any = network_of(trajectory)
    n = network.settings.n
    rows = []
    for run, seed in enumerate(trajectory["seed"].values):
        recorded = (
            trajectory[list(network.variables)].isel(run=[run], step=[frame]).load()
        )
        single = weights(recorded.assign_attrs(trajectory.attrs), run=0)
        double = {name: values.double() for name, values in single.items()}
        triples = progress_measures.random_triples(n, int(seed))
        logits = progress_measures.all_logits(network, double)
        embedding = double["embedding"][..., :n, :].numpy()
        rows.append(
            (
                progress_measures.gradient_symmetricity(network, double, triples),
                progress_measures.distance_irrelevance(logits),
                progress_measures.component_circularity(embedding),
            )
        )
    columns = np.reshape(rows, (-1, len(MEASURES))).T
    return dict(zip(MEASURES, columns, strict=True))


RATE = declare_experiment("zl.attention-rate", measure, ensembles)


# ---------------------------------------------------------------------------- estimates


def unless_missing(
    evidence: xr.Dataset, estimator: Measure, **arguments: Any
) -> Estimate:
    """An estimate at one attention rate or two; skipped if they were not run."""
    rates = np.atleast_1d(arguments["attention_rate"])
    missing = [
        f"{rate:g}" for rate in rates if rate not in evidence["attention_rate"].values
    ]
    if missing:
        note = f"α = {', '.join(missing)} is not run at this size"
        return Estimate(NO_INTERVAL, 0, note=note, skipped=True)
    return estimator(evidence, **arguments)


def mean_in_range(
    evidence: xr.Dataset, name: str, low: float, high: float, circular: bool = False
) -> Estimate:
    """Mean of a measure over the networks with rates in a range, all or the circular
    ones."""
    networks, of = networks_in_range(evidence, low, high), "networks"
    if not networks.sizes["network"]:
        return Estimate(
            NO_INTERVAL, 0, note="no such α is run at this size", skipped=True
        )
    if circular:
        is_circular = networks["circularity"].values >= CIRCULAR
        networks, of = networks.isel(network=is_circular), "circular networks"
    rates = np.unique(networks["attention_rate"].values)
    note = ", ".join(f"{rate:g}" for rate in rates[:1])
    if len(rates) > 1:
        note = f"{rates[0]:g} to {rates[-1]:g}"
    return samples.estimate_mean(
        networks[name], of, f"α = {note}" if note else "", (-1, 1)
    )


def perfect_networks(evidence: xr.Dataset) -> Estimate:
    """Percentage of networks with a test accuracy of 100%, of all attention rates."""
    accuracies = samples.finite_values(evidence["test_accuracy"])
    note = f"the lowest accuracy is {accuracies.min():.2f}%" if accuracies.size else ""
    return samples.percentage_of_ones(accuracies >= 100, "networks", note)


# ------------------------------------------------------------------------------- claims


def row_parts(column: str, margin: float, **more: Any) -> tuple[Measurement, ...]:
    """A part for each row of the table of ZL's runs, compared with a column."""
    runs = "circular_runs" if "circular" in more else "runs"
    return tuple(
        part(
            mean_in_range,
            Agrees(reported_number(row[column], row[runs]), margin),
            f"α from {row['low']:g} to {row['high']:g}",
            digits=3,
            **{"name": column, "low": row["low"], "high": row["high"], **more},
        )
        for row in ZL_RUNS
    )
