"""CA appendix F: embeddings of three and four axes, and their projections on two."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import xarray as xr

from analysis.reproduction.musat2024.structures import RANDOM_EMBEDDINGS, RARE
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.final_frames import expand_to_runs, frame_values
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.samples import estimate_mean, finite_values, percentage_or_none
from analysis.structures.circles_and_grids import count_imperfections
from analysis.structures.nearest_structures import GRID_SEARCH_STARTS, nearest_circle, nearest_grid
from dynamics.randomness import normal_samples, random_stream
from dynamics.settings import ModularSettings
from dynamics.trajectory.diverged import not_diverged

HIGHER = (3, 4)
SHUFFLES = 20


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks with embeddings of three and four axes, with weight decay 1."""
    settings = [ModularSettings(weight_decay=1.0, dim=dim) for dim in HIGHER]
    return [RequiredRuns(each, params["runs"], params.get("epochs"), every=0) for each in settings]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Imperfections, and distances of projections from circles and grids, (dim, run); and by chance, (dim,)."""
    rows, chance = [], []
    for dim, need in zip(HIGHER, ensembles(params), strict=True):
        trajectory = runner.ensemble(need)
        kept = not_diverged(trajectory)
        x = frame_values(trajectory, "embedding", -1)[kept]
        generator, n = random_stream(0, "verify/tokens"), x.shape[-2]
        shuffled = np.mean([count_imperfections(x[:, generator.permutation(n)]) for _ in range(SHUFFLES)], axis=0)
        random = normal_samples(np.arange(params.get("random", RANDOM_EMBEDDINGS)), "formation/chance", (n, dim))
        found = {"imperfections": count_imperfections(x), "chance_imperfections": shuffled, **projection_distances(x)}
        rows.append({name: expand_to_runs(values, kept) for name, values in found.items()})
        by_chance = {"imperfections": count_imperfections(random), **projection_distances(random)}
        chance.append({name: np.quantile(values, RARE) for name, values in by_chance.items()})
    result = xr.Dataset(coords={"dim": list(HIGHER)})
    for name, words in QUANTITIES.items():
        result[name] = (("dim", "run"), np.stack([row[name] for row in rows]), {"long_name": words, "units": "1"})
        if name in chance[0]:
            attrs = {"long_name": "below which one random embedding in a hundred is", "units": "1"}
            result[f"rare_{name}"] = (("dim",), np.array([row[name] for row in chance]), attrs)
    return result


QUANTITIES = {
    "imperfections": "grid imperfections",
    "chance_imperfections": "mean grid imperfections with tokens renamed at random",
    "circle_distance": "least distance of a projection on two axes from a perfect circle",
    "grid_distance": "least distance of a projection on two axes from a grid",
}


def projection_distances(x: np.ndarray) -> dict[str, np.ndarray]:
    """The least distances over the projections on pairs of axes, which appendix F shows: (run, token, axis) -> (run,).

    Along the axes as they are and along the principal ones, since the paper's axes are no different from any others.
    """
    centred = x - x.mean(axis=-2, keepdims=True)
    turned = centred @ np.linalg.svd(centred, full_matrices=False)[2].mT
    planes = [each[..., list(axes)] for each in (x, turned) for axes in combinations(range(x.shape[-1]), 2)]
    return {
        "circle_distance": np.min([nearest_circle(plane).distance for plane in planes], axis=0),
        "grid_distance": np.min([nearest_grid(plane).distance for plane in planes], axis=0),
    }


APPENDIX_F = Experiment(
    "ca.appF",
    "structures of networks with embeddings of three and four axes",
    sizes={Size.QUICK: {"runs": 40, "random": 300}, Size.DEFAULT: {"runs": 100}, Size.FULL: {"runs": 100}},
    seconds={Size.QUICK: 8, Size.DEFAULT: 25, Size.FULL: 25},
    measure=measure,
    ensembles=ensembles,
    depends={"random": RANDOM_EMBEDDINGS, "rare": RARE, "starts": GRID_SEARCH_STARTS, "shuffles": SHUFFLES},
    command="python -m analysis.paper ca-f",
)


def few_imperfections(evidence: xr.Dataset, dim: int) -> Estimate:
    """Percentage of networks with fewer imperfections than one random embedding in a hundred has."""
    row = evidence.sel(dim=dim)
    values = finite_values(row["imperfections"])
    return percentage_or_none(int((values < float(row["rare_imperfections"])).sum()), len(values), "networks")


def relative_imperfections(evidence: xr.Dataset, dim: int) -> Estimate:
    """Imperfections as a percentage of those that the same places have with tokens renamed."""
    row = evidence.sel(dim=dim)
    return estimate_mean(100 * row["imperfections"] / row["chance_imperfections"], "networks")


def structured_projections(evidence: xr.Dataset, dim: int) -> Estimate:
    """Percentage of networks a projection of which is nearer to a circle or grid than by chance."""
    row = evidence.sel(dim=dim).dropna("run", subset=["imperfections"])
    near = [row[name].values < float(row[f"rare_{name}"]) for name in ("circle_distance", "grid_distance")]
    return percentage_or_none(int((near[0] | near[1]).sum()), row.sizes["run"], "networks")
