"""CA section 7: networks in which only one part, the classifier or the embedding, has
weight decay."""

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
    experiment_runs,
    measure_ensembles,
)
from analysis.reproduction.musat2024.end_states import END_STATE, end_state
from analysis.structures.ensemble_ends import end_accuracy
from dynamics.settings import ModularSettings

PARTS = {
    "nothing": (0.0, 0.0),
    "classifier": (1.0, 0.0),
    "embedding": (0.0, 1.0),
    "all": (1.0, 1.0),
}
"""Weight decay of the two layers that classify pair sums, and of the embedding, by the
part that is decayed."""


def decayed_part_settings() -> list[ModularSettings]:
    """The settings with weight decay of each part, in the order of `PARTS`."""
    return [
        ModularSettings(
            weight_decay=classifier,
            embedding_weight_decay=None if embedding == classifier else embedding,
        )
        for classifier, embedding in PARTS.values()
    ]


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks with weight decay of each part."""
    return [experiment_runs(one, params, every=0) for one in decayed_part_settings()]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """How each network ends, (decayed, run)."""
    quantities = END_STATE | {"accuracy": "validation accuracy at the end, %"}
    evidence = measure_ensembles(
        runner, ensembles(params), quantities, _measure_runs, ("decayed", "run")
    )
    return evidence.assign_coords(decayed=list(PARTS))


def _measure_runs(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    accuracy = 100 * end_accuracy(trajectory, trajectory["seed"].values)
    return end_state(trajectory) | {"accuracy": accuracy}


def imperfection_change(part: str, words: str) -> Number:
    """Mean imperfections with weight decay of a part less those with weight decay of
    nothing, over seeds whose networks are circles in neither case."""

    def change(evidence: xr.Dataset) -> Estimate:
        grids = evidence["imperfections"].where(evidence["circle"] == 0)
        decayed, not_decayed = (grids.sel(decayed=one) for one in (part, "nothing"))
        return estimates.paired_difference(
            decayed, not_decayed, "seeds that are no circles"
        )

    label = f"imperfections, decay of {words} less decay of nothing"
    return Number(change, Sign.NEGATIVE, label)


def accuracy_change(part: str, words: str) -> Number:
    """Mean validation accuracy with weight decay of a part less that with weight decay
    of nothing."""

    def change(evidence: xr.Dataset) -> Estimate:
        accuracy = evidence["accuracy"]
        return estimates.paired_difference(
            accuracy.sel(decayed=part), accuracy.sel(decayed="nothing"), "seeds"
        )

    label = f"validation accuracy, decay of {words} less decay of nothing"
    return Number(change, Sign.POSITIVE, label, "points")


LINK = Claim(
    "CA.s7.link",
    "section 7",
    "By regularizing one part of the model, we enable the emergence of",
    "Weight decay of the classifier alone changes how the embeddings, which are not"
    " decayed, arrange themselves: those that are no circles have fewer imperfections.",
    (
        imperfection_change("classifier", "the classifier only"),
        accuracy_change("classifier", "the classifier only"),
        imperfection_change("embedding", "the embedding only"),
        accuracy_change("embedding", "the embedding only"),
        imperfection_change("all", "all parts"),
    ),
    "The paper decays all parts; decay of one part only is our experiment. The"
    " classifier is the two layers after the embedding. Weight decay is 1, and 0 for"
    " parts that are not decayed; networks of one seed start alike and have the same"
    " training pairs. Decay of either part has a large effect, and decay of both a"
    " larger one.",
    summary="weight decay of the classifier alone makes embeddings more regular",
    figure="ca-decay",
)

DECAY_BY_PART = Experiment(
    "ca.decay-by-part",
    "structures and accuracy of networks with weight decay of nothing, of the"
    " classifier, of the embedding and of all",
    measure,
    quick=Sizing(1, {"runs": 100}),
    default=Sizing(1, {"runs": 1000}),
    ensembles=ensembles,
    command="python -m sims.modular --weight-decay 1 --embedding-weight-decay 0",
    claims=(LINK,),
)
