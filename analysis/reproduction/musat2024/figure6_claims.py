"""How weights, biases and the motion of embeddings depend on weight decay (CA section
5.1, figure 6 and appendix B)."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.reproduction import estimates
from analysis.reproduction.claim import Claim, Number, Sign
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    RequiredRuns,
    Runner,
    Sizing,
    frame_values,
)
from analysis.reproduction.musat2024 import networks
from analysis.structures.procrustes import procrustes_distance

DECAYS = (0.0, 1.0)
"""The ends of figure 6."""
QUANTITIES = {
    "weight": "mean absolute hidden weight at the end",
    "bias": "mean absolute hidden bias at the end",
    "movement": "Procrustes distance between the embedding half-way and at the end",
}


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks without weight decay and with weight decay 1."""
    return networks.ensembles(params, DECAYS)


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Sizes and motion, (weight_decay, run)."""
    return networks.measure_by_weight_decay(
        runner, ensembles(params), QUANTITIES, _measure_runs
    )


def _measure_runs(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    steps = trajectory["step"].values
    middle = int(np.abs(steps - steps[-1] / 2).argmin())
    half, end = (frame_values(trajectory, "embedding", at) for at in (middle, -1))
    weight, bias = (
        np.abs(frame_values(trajectory, name, -1))
        for name in ("hidden_weight", "hidden_bias")
    )
    return {
        "weight": weight.mean(axis=(1, 2)),
        "bias": bias.mean(axis=1),
        "movement": procrustes_distance(half, end),
    }


def excess_without_decay(evidence: xr.Dataset, name: str, over: str = "") -> Estimate:
    """How much larger a quantity, or its ratio to another one, is without weight decay
    than at weight decay 1, in percent."""
    row = evidence[name] / evidence[over] if over else evidence[name]
    without, decayed = (row.sel(weight_decay=decay) for decay in DECAYS)
    return estimates.percent_change(estimates.paired_ratio(without, decayed, "seeds"))


LIMITS = Claim(
    "CA.figure6.decay-limits",
    "appendix B, on figure 6",
    "weight decay strongly limits the magnitude of the weights and biases",
    "Weight decay limits the weights and biases of the hidden layer, and biases more.",
    (
        Number(
            lambda evidence: excess_without_decay(evidence, "weight"),
            Sign.POSITIVE,
            "mean absolute weight without weight decay over that at weight decay 1,"
            " less 1",
            "%",
            digits=0,
        ),
        Number(
            lambda evidence: excess_without_decay(evidence, "bias"),
            Sign.POSITIVE,
            "mean absolute bias without weight decay over that at weight decay 1, less 1",
            "%",
            digits=0,
        ),
        Number(
            lambda evidence: excess_without_decay(evidence, "bias", "weight"),
            Sign.POSITIVE,
            "mean absolute bias over mean absolute weight, without weight decay over the"
            " same at weight decay 1, less 1",
            "%",
            digits=0,
        ),
    ),
    "Without weight decay biases are several times larger. The paper averages ten"
    " networks at each weight decay and prints no numbers.",
    summary="weight decay limits weights and, more strongly, biases",
    figure="ca6",
)
HALT = Claim(
    "CA.s5.1.halt",
    "section 5.1",
    "the evolution of the embeddings would come to a halt",
    "Without weight decay embeddings move less in the second half of training than"
    " with it.",
    (
        Number(
            lambda evidence: excess_without_decay(evidence, "movement"),
            Sign.NEGATIVE,
            "Procrustes distance between the embedding half-way and at the end, without"
            " weight decay over that at weight decay 1, less 1",
            "%",
            digits=0,
        ),
    ),
    "A change of size, shift or rotation does not count. That they come to a halt is"
    " more than that they move less: without weight decay they still move a little.",
    summary="without weight decay embeddings move less late in training than with it",
)

FIGURE_6 = Experiment(
    "ca.figure6",
    "hidden weights, biases and the motion of embeddings without weight decay and with"
    " weight decay 1",
    measure,
    quick=Sizing(1, {"runs": 100}),
    default=Sizing(1, {"runs": 1000, "every": 1000}),
    ensembles=ensembles,
    version=3,
    command="python -m analysis.paper weights",
    claims=(LIMITS, HALT),
)
