"""CA sections 5.1 and 7, figure 6, appendix B: what weight decay does to weights and to
the motion of embeddings."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.musat2024 import networks
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    declare_experiment,
    frame_values,
    samples,
)
from analysis.structures.procrustes import procrustes_distance

DECAYS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
WEIGHTS = {
    "weight": "hidden_weight",
    "bias": "hidden_bias",
    "output_weight": "output_weight",
}


def figure_6_ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks of each weight decay of figure 6."""
    return networks.ensembles({**params, "every": 0}, DECAYS)


def measure_weight_sizes(runner: Runner, params: Params) -> xr.Dataset:
    """Mean absolute weights and biases at the end, (weight_decay, run)."""
    quantities = {
        name: f"mean absolute {variable}" for name, variable in WEIGHTS.items()
    }
    return networks.measure_by_weight_decay(
        runner, figure_6_ensembles(params), quantities, _sizes
    )


def _sizes(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    sizes = {}
    for name, variable in WEIGHTS.items():
        weights = np.abs(frame_values(trajectory, variable, -1))
        sizes[name] = weights.mean(axis=tuple(range(1, weights.ndim)))
    return sizes


FIGURE_6 = declare_experiment("ca.figure6", measure_weight_sizes, figure_6_ensembles)

MOVEMENT = {
    "second_half": "Procrustes distance between the embedding half-way and at the end",
    "slowing": (
        "mean size of an update of the embedding in the last tenth over that in the"
        " first tenth of training"
    ),
    "rate": (
        "mean size of an update of the embedding over its size, in the last tenth of"
        " training"
    ),
}


def measure_movement(runner: Runner, params: Params) -> xr.Dataset:
    """How much each embedding moves in the second half of training, (weight_decay,
    run)."""
    return networks.measure_by_weight_decay(
        runner, networks.ensembles(params), MOVEMENT, _movement
    )


def _movement(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    steps = trajectory["step"].values
    middle = int(np.abs(steps - steps[-1] / 2).argmin())
    half, end = (frame_values(trajectory, "embedding", at) for at in (middle, -1))
    norms = trajectory["update_norm"].sel(layer="embedding")
    updates = norms.transpose("run", "step").values
    early = updates[:, (steps > 0) & (steps <= steps[-1] / 10)].mean(axis=1)
    late = updates[:, steps > steps[-1] * 9 / 10].mean(axis=1)
    size = np.linalg.norm(end, axis=(-2, -1))
    return {
        "second_half": procrustes_distance(half, end),
        "slowing": late / early,
        "rate": late / size,
    }


HALT = declare_experiment("ca.halt", measure_movement, networks.ensembles)


def bias_to_weight_ratio(evidence: xr.Dataset) -> Estimate:
    """How much more weight decay reduces the biases than the weights, a ratio of
    ratios."""
    ratio = evidence.sel(weight_decay=0.0) / evidence.sel(weight_decay=1.0)
    return samples.paired_ratio(ratio["bias"], ratio["weight"], "seeds")
