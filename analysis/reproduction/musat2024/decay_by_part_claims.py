"""CA section 7: weight decay of one part of the network only."""

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
from analysis.structures.structure_tables import end_accuracy
from dynamics.settings import ModularSettings

PARTS = {
    "nothing": (0.0, 0.0),
    "classifier": (1.0, 0.0),
    "embedding": (0.0, 1.0),
    "all": (1.0, 1.0),
}
"""Weight decay of the two layers that classify pair sums, and of the embedding, by the
part that is decayed."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks with weight decay of each part."""
    settings = [
        ModularSettings(
            weight_decay=classifier,
            embedding_weight_decay=None if embedding == classifier else embedding,
        )
        for classifier, embedding in PARTS.values()
    ]
    return [experiment_runs(one, params, every=0) for one in settings]


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


def imperfection_change(evidence: xr.Dataset, part: str) -> Estimate:
    """Mean imperfections with weight decay of a part less those with weight decay of
    nothing, over seeds whose networks are circles in neither case."""
    grids = evidence["imperfections"].where(evidence["circle"] == 0)
    return estimates.paired_difference(
        grids.sel(decayed=part),
        grids.sel(decayed="nothing"),
        "seeds that are no circles",
    )


def accuracy_change(evidence: xr.Dataset, part: str) -> Estimate:
    """Mean validation accuracy with weight decay of a part less that with weight decay
    of nothing, in points."""
    accuracy = evidence["accuracy"]
    return estimates.paired_difference(
        accuracy.sel(decayed=part), accuracy.sel(decayed="nothing"), "seeds"
    )


LINK = Claim(
    "CA.s7.link",
    "section 7",
    "By regularizing one part of the model, we enable the emergence of",
    "Weight decay of the classifier alone changes how the embeddings, which are not"
    " decayed, arrange themselves: their grids have fewer imperfections.",
    (
        Number(
            lambda evidence: imperfection_change(evidence, "classifier"),
            Sign.NEGATIVE,
            "imperfections, decay of the classifier only less decay of nothing",
        ),
        Number(
            lambda evidence: accuracy_change(evidence, "classifier"),
            Sign.POSITIVE,
            "validation accuracy, decay of the classifier only less decay of nothing",
            "points",
        ),
        Number(
            lambda evidence: imperfection_change(evidence, "embedding"),
            Sign.NEGATIVE,
            "imperfections, decay of the embedding only less decay of nothing",
        ),
        Number(
            lambda evidence: accuracy_change(evidence, "embedding"),
            Sign.POSITIVE,
            "validation accuracy, decay of the embedding only less decay of nothing",
            "points",
        ),
        Number(
            lambda evidence: imperfection_change(evidence, "all"),
            Sign.NEGATIVE,
            "imperfections, decay of all parts less decay of nothing",
        ),
    ),
    "Our own experiment; the paper decays all parts. The classifier is the two layers"
    " after the embedding. Weight decay is 1, or 0 for the parts that are not decayed."
    " Networks of one seed start alike and have the same training pairs. Decay of"
    " either part has a large effect, and decay of both a larger one.",
    summary="weight decay of one part enables the dynamics of another",
)

DECAY_BY_PART = Experiment(
    "ca.decay-by-part",
    "structures and accuracy of networks with weight decay of nothing, of the"
    " classifier, of the embedding and of all",
    measure,
    quick=Sizing(1, {"runs": 100}),
    default=Sizing(5, {"runs": 1000}),
    ensembles=ensembles,
    command="python -m sims.modular --weight-decay 1 --embedding-weight-decay 0",
    claims=(LINK,),
)
