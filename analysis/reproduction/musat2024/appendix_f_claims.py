"""CA appendix F: embeddings of three and four axes, and their projections on two."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import xarray as xr

from analysis.reproduction.musat2024 import networks
from analysis.reproduction.musat2024.structure_claims import (
    RANDOM_EMBEDDINGS,
    RARE,
    RARE_ATTRS,
    rare_values,
)
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    declare_experiment,
    experiment_runs,
    frame_values,
    measure_ensembles,
    samples,
)
from analysis.structures.circles_and_grids import count_imperfections
from analysis.structures.nearest_structures import (
    GRID_SEARCH_STARTS,
    nearest_circle,
    nearest_grid,
)
from dynamics.settings import ModularSettings

HIGHER = (3, 4)

QUANTITIES = {
    "imperfections": "grid imperfections",
    "circle_distance": (
        "smallest distance of a projection on two axes from a perfect circle"
    ),
    "grid_distance": "smallest distance of a projection on two axes from a grid",
}


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks with embeddings of three and four axes, with weight decay 1."""
    settings = [ModularSettings(weight_decay=1.0, dim=dim) for dim in HIGHER]
    return [experiment_runs(one, params, every=0) for one in settings]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Imperfections, and distances of projections from circles and grids, (dim, run);
    and by chance, (dim,)."""
    quantities = QUANTITIES | {
        "chance_imperfections": "mean grid imperfections with tokens permuted at random"
    }
    needs = ensembles(params)
    evidence = measure_ensembles(
        runner, needs, quantities, _measure_runs, ("dim", "run")
    )
    shapes = [(need.settings.n, dim) for need, dim in zip(needs, HIGHER, strict=True)]  # type: ignore[attr-defined]
    rows = [rare_values(projection_measures, params, shape) for shape in shapes]
    rare = {
        f"rare_{name}": ("dim", [row[name] for row in rows], RARE_ATTRS)
        for name in QUANTITIES
    }
    return evidence.assign(rare).assign_coords(dim=list(HIGHER))


def _measure_runs(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    """The quantities of one ensemble, each (run,)."""
    x = frame_values(trajectory, "embedding", -1)
    return projection_measures(x) | {
        "chance_imperfections": networks.shuffled_imperfections(x)
    }


def projection_measures(x: np.ndarray) -> dict[str, np.ndarray]:
    """Imperfections, and smallest distances of projections on two axes from a circle
    and a grid, each (run,).

    x: (run, token, axis).

    The pairs of axes are the embedding's own, as in appendix F, and the principal ones,
    since no axis is special."""
    centred = x - x.mean(axis=-2, keepdims=True)
    turned = centred @ np.linalg.svd(centred, full_matrices=False)[2].mT
    pairs = list(map(list, combinations(range(x.shape[-1]), 2)))
    planes = [points[..., axes] for points in (x, turned) for axes in pairs]
    circles = [nearest_circle(plane).distance for plane in planes]
    grids = [nearest_grid(plane).distance for plane in planes]
    return {
        "imperfections": count_imperfections(x),
        "circle_distance": np.min(circles, axis=0),
        "grid_distance": np.min(grids, axis=0),
    }


APPENDIX_F = declare_experiment(
    "ca.appF",
    measure,
    ensembles,
    depends={
        "random": RANDOM_EMBEDDINGS,
        "rare": RARE,
        "starts": GRID_SEARCH_STARTS,
        "shuffles": networks.SHUFFLES,
    },
)


def rarely_by_chance(evidence: xr.Dataset, dim: int, names: Sequence[str]) -> Estimate:
    """Percentage of networks of which some of the named quantities is lower than in 99%
    of random embeddings."""
    row = evidence.sel(dim=dim).dropna("run", subset=["imperfections"])
    low = [row[name].values < float(row[f"rare_{name}"]) for name in names]
    return samples.percentage_of_ones(np.any(low, axis=0), "networks")


def relative_imperfections(evidence: xr.Dataset, dim: int) -> Estimate:
    """Imperfections as a percentage of those of the same positions with tokens
    permuted."""
    row = evidence.sel(dim=dim)
    return samples.estimate_mean(
        100 * row["imperfections"] / row["chance_imperfections"], "networks"
    )
