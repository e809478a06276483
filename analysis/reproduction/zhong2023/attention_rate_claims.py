"""ZL: how networks add by the attention rate, from constant attention (0) to softmax
attention (1)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from analysis import progress_measures
from analysis.plots.attention_rate_figure import networks_in_range
from analysis.reproduction import estimates
from analysis.reproduction.claim import Claim, Number, Sign, printed_number
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    RequiredRuns,
    Runner,
    Sizing,
    experiment_runs,
    measure_ensembles,
)
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
    return needs


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Measures of each network, (attention_rate, run)."""
    evidence = measure_ensembles(
        runner, ensembles(params), MEASURES, network_measures, DIMS
    )
    rates = [*params["rates"], *params.get("single_rates", [])]
    return evidence.assign_coords(attention_rate=rates).sortby("attention_rate")


def network_measures(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    """Symmetricity, irrelevance and circularity of each network at the end, each
    (run,)."""
    network: Any = network_of(trajectory)
    n = network.settings.n
    rows = []
    for run, seed in enumerate(trajectory["seed"].values):
        recorded = trajectory[list(network.variables)].isel(run=[run], step=[-1]).load()
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


# ----------------------------------------------------------------------- the two models


def model_number(name: str, rate: float, printed: str) -> Number:
    """The mean of a measure at an attention rate, and its value in the paper's
    model."""
    return Number(
        lambda evidence: estimates.estimate_mean(
            evidence[name].sel(attention_rate=rate), "networks", limits=(-1, 1)
        ),
        printed_number(printed, 1),
        name,
        digits=3,
    )


def model_claim(
    name: str, rate: float, printed: Sequence[str], passage: str, statement: str
) -> Claim:
    """The measures of one of the paper's two models."""
    numbers = map(model_number, MEASURES, [rate] * len(MEASURES), printed)
    return Claim(
        f"ZL.models.{name}",
        "sections 4.1.1 and 4.1.2, appendix B",
        passage,
        statement,
        tuple(numbers),
        "The paper prints the values of one network, which is taken to vary as ours do."
        " Ours are not chosen for circular embeddings. With four networks the intervals"
        " of irrelevance and circularity are wide, so that agreement says little there.",
        figure="zl-rates",
    )


MODELS = (
    model_claim(
        "A",
        0.0,
        ("0.9937", "0.17", "0.998"),
        "Model A and Model B in Section 3 have gradient symmetricity 99.37%",
        "With constant attention gradients are almost symmetric, as printed for model A.",
    ),
    model_claim(
        "B",
        1.0,
        ("0.3336", "0.85", "0.998"),
        "gradient symmetricity 99.37% and 33.36%, respectively",
        "With softmax attention embeddings are circular, gradients not symmetric, and"
        " the correct logits depend little on the difference of the summands: a clock.",
    ),
)

# ------------------------------------------------------------------- the attention rate


def softmax_less_constant(evidence: xr.Dataset, name: str) -> Estimate:
    """A measure with softmax attention less that with constant attention, of equal
    seeds."""
    softmax, constant = (evidence[name].sel(attention_rate=rate) for rate in (1.0, 0.0))
    return estimates.paired_difference(softmax, constant, "seeds")


TRANSITION = Claim(
    "ZL.figure7.transition",
    "section 4.2, figure 7",
    "a clear phase transition from the Pizza algorithm to the Clock algorithm",
    "As the attention rate rises, distance irrelevance rises and gradient symmetricity"
    " falls: networks change from pizza to clock.",
    (
        Number(
            lambda evidence: estimates.setting_trend(evidence["irrelevance"]),
            Sign.POSITIVE,
            "rank correlation of irrelevance with the attention rate",
            digits=2,
        ),
        Number(
            lambda evidence: estimates.setting_trend(evidence["symmetricity"]),
            Sign.NEGATIVE,
            "rank correlation of symmetricity with the attention rate",
            digits=2,
        ),
        Number(
            lambda evidence: softmax_less_constant(evidence, "irrelevance"),
            Sign.POSITIVE,
            "irrelevance with softmax less with constant attention",
            digits=2,
        ),
        Number(
            lambda evidence: softmax_less_constant(evidence, "symmetricity"),
            Sign.NEGATIVE,
            "symmetricity with softmax less with constant attention",
            digits=2,
        ),
    ),
    "Symmetricity changes little in the lower half of the range and much above it;"
    " irrelevance rises throughout. All networks"
    " are used; the figure shows those with circular embeddings. Whether the change is a sharp"
    " transition is not tested.",
    summary="networks change from pizza to clock as the attention rate rises",
    figure="zl-rates",
)

# ------------------------------------------------------------ the public table of runs


class Fifth(NamedTuple):
    """Means of the authors' one-layer networks of width 128, with one vocabulary and no
    = token, in a fifth of the range of the attention rate."""

    low: float
    high: float
    runs: int
    symmetricity: float
    irrelevance: float
    circularity: float


FIFTHS = (
    Fifth(0.0, 0.2, 485, 0.993, 0.418, 0.955),
    Fifth(0.2, 0.4, 462, 0.992, 0.423, 0.950),
    Fifth(0.4, 0.6, 521, 0.973, 0.449, 0.931),
    Fifth(0.6, 0.8, 450, 0.777, 0.655, 0.949),
    Fifth(0.8, 1.0, 463, 0.542, 0.809, 0.962),
)
ZL_RUNS = [fifth._asdict() for fifth in FIFTHS]
"""The same, as the figure of attention rates takes them."""


def mean_in_fifth(evidence: xr.Dataset, name: str, fifth: Fifth) -> Estimate:
    """Mean of a measure over the networks with rates in a fifth."""
    networks = networks_in_range(evidence, fifth.low, fifth.high)
    return estimates.estimate_mean(networks[name], "networks", limits=(-1, 1))


def fifth_number(name: str, fifth: Fifth) -> Number:
    """The mean of a measure in a fifth, and that of the table."""
    return Number(
        lambda evidence: mean_in_fifth(evidence, name, fifth),
        printed_number(f"{getattr(fifth, name):.3f}", fifth.runs),
        f"{name}, α from {fifth.low:g} to {fifth.high:g}",
        digits=3,
    )


def table_claim(name: str, statement: str, comment: str, summary: str = "") -> Claim:
    """A column of the table, the highest fifth first."""
    return Claim(
        f"ZL.runs.{name}",
        "the authors' table of runs",
        "two tables of stats collected across all 1-layer runs",
        statement,
        tuple(fifth_number(name, fifth) for fifth in reversed(FIFTHS)),
        comment,
        summary,
        figure="zl-rates",
    )


TABLE = (
    table_claim(
        "symmetricity",
        "In the authors' table of runs the mean gradient symmetricity is .542 in the"
        " highest fifth of the attention rate.",
        "Four of five fifths agree. Means of the authors' public table; eight networks of ours in each fifth. In"
        " the middle fifth our rates end at 0.52, before the transition.",
    ),
    table_claim(
        "irrelevance",
        "In the authors' table of runs the mean distance irrelevance is .809 in the"
        " highest fifth of the attention rate.",
        "Two of five fifths differ; no cause is known. Means of the authors' public table; eight networks of ours in each fifth. Ours"
        " lie below theirs by similar amounts at both ends, so that the rise is as"
        " large.",
        "the mean distance irrelevance of the authors' table in the highest and the lowest"
        " fifth of the attention rate",
    ),
)

RATE = Experiment(
    "zl.attention-rate",
    "symmetricity, irrelevance and circularity of transformers by the attention rate",
    measure,
    quick=Sizing(
        5, {"runs": 4, "every": 250, "rates": [0.0, 1.0], "epochs": [500, 500]}
    ),
    default=Sizing(
        15,
        {
            "runs": 8,
            "every": 250,
            "rates": [0.0, 0.3, 0.5, 0.7, 1.0],
            "epochs": [1000, 1000, 1000, 1000, 1500],
        },
        "1,000 epochs, with α = 1 1,500, instead of 20,000; 40 networks instead of"
        " 2,381",
    ),
    full=Sizing(
        200,
        {
            "runs": 4,
            "every": 1000,
            "rates": [0.0, 1.0],
            "epochs": [20000, 20000],
            "single_epochs": 20000,
            # the rate of network k is uniform in fifth k % 5, with the random numbers
            # of np.random.default_rng([2306, 17844, k])
            "single_rates": [
                *(0.0918, 0.2873, 0.501, 0.6804, 0.934),
                *(0.149, 0.3881, 0.4241, 0.6549, 0.8513),
                *(0.0881, 0.338, 0.4282, 0.6641, 0.9975),
                *(0.1733, 0.26, 0.4173, 0.6144, 0.8514),
                *(0.1596, 0.2317, 0.503, 0.6247, 0.8858),
                *(0.0651, 0.3929, 0.4124, 0.7142, 0.8345),
                *(0.0924, 0.3997, 0.4212, 0.6731, 0.8999),
                *(0.1118, 0.3875, 0.5214, 0.7791, 0.854),
            ],
        },
    ),
    ensembles=ensembles,
    claims=(*MODELS, TRANSITION, *TABLE),
)
