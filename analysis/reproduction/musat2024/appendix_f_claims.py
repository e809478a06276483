"""CA appendix F: embeddings of three and four axes, and their projections on two."""

from collections.abc import Sequence
from itertools import combinations

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
    frame_values,
    measure_ensembles,
)
from analysis.reproduction.musat2024 import end_states
from analysis.reproduction.musat2024.end_states import DISTANCES, SHUFFLES
from analysis.structures.circles_and_grids import count_imperfections
from analysis.structures.nearest_structures import GRID_SEARCH_STARTS
from dynamics.settings import ModularSettings

HIGHER = (3, 4)
QUANTITIES = {
    "imperfections": "grid imperfections",
    "chance_imperfections": "mean grid imperfections with tokens permuted at random",
    **{
        name: f"{words}, of the nearest projection" for name, words in DISTANCES.items()
    },
}


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks with embeddings of three and four axes, with weight decay 1."""
    settings = [ModularSettings(weight_decay=1.0, dim=dim) for dim in HIGHER]
    return [experiment_runs(one, params, every=0) for one in settings]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Imperfections, and distances of projections from circles and grids, (dim, run)."""
    evidence = measure_ensembles(
        runner, ensembles(params), QUANTITIES, _measure_runs, ("dim", "run")
    )
    return evidence.assign_coords(dim=list(HIGHER))


def _measure_runs(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    """The quantities of one ensemble, each (run,)."""
    end = frame_values(trajectory, "embedding", -1)
    return {
        "imperfections": count_imperfections(end),
        "chance_imperfections": end_states.shuffled_imperfections(end),
        **projection_distances(end),
    }


def projection_distances(x: np.ndarray) -> dict[str, np.ndarray]:
    """The smallest `DISTANCES` of projections of embeddings (run, token, axis) on two
    axes, each (run,).

    The pairs of axes are the embedding's own, as in appendix F, and the principal ones,
    since no axis is special."""
    centred = x - x.mean(axis=-2, keepdims=True)
    turned = centred @ np.linalg.svd(centred, full_matrices=False)[2].mT
    pairs = list(map(list, combinations(range(x.shape[-1]), 2)))
    planes = [
        end_states.structure_distances(points[..., axes])
        for points in (x, turned)
        for axes in pairs
    ]
    return {
        name: np.min([plane[name] for plane in planes], axis=0) for name in DISTANCES
    }


def structured_projections(dim: int) -> Number:
    """How many networks with embeddings of `dim` axes have a projection that is nearer
    to a perfect structure than with renamed tokens."""
    return Number(
        lambda evidence: end_states.nearer_than_renamed(
            evidence.sel(dim=dim), "networks"
        ),
        Sign.POSITIVE,
        "percentage of networks with a projection that is nearer to a circle or grid"
        " than every projection after their tokens are renamed at random, less 50%;"
        f" D = {dim}",
        "points",
    )


def imperfection_difference(dim: int) -> Number:
    """Mean imperfections less those with tokens permuted at random."""

    def difference(evidence: xr.Dataset) -> Estimate:
        row = evidence.sel(dim=dim)
        return estimates.paired_difference(
            row["imperfections"], row["chance_imperfections"], "networks"
        )

    label = f"imperfections, less with renamed tokens; D = {dim}"
    return Number(difference, Sign.NEGATIVE, label)


STRUCTURES = Claim(
    "CA.appF.structures",
    "section 4, on appendix F",
    "similar structures emerge in higher-dimensional embedding spaces",
    "In three and four dimensions, too, the order of embeddings, in a projection on two"
    " axes, tends to be nearer to that of a circle or grid than by chance.",
    (*map(structured_projections, HIGHER), *map(imperfection_difference, HIGHER)),
    "Weight decay 1, as in the paper, which shows fifteen networks. Projections are on"
    " pairs of the embedding's own axes, as there, and of its principal ones. Fifty"
    " points are the most; nearer does not mean near.",
    figure="ca-f",
)

APPENDIX_F = Experiment(
    "ca.appF",
    "structures of networks with embeddings of three and four axes",
    measure,
    quick=Sizing(4, {"runs": 40}),
    default=Sizing(6, {"runs": 100}),
    ensembles=ensembles,
    depends={"shuffles": SHUFFLES, "starts": GRID_SEARCH_STARTS},
    version=2,
    command="python -m analysis.paper ca-f",
    claims=(STRUCTURES,),
)
