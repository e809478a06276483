"""CA section 5.1: neighbouring pair sums under the true gradient, and other laws of distance than the paper's."""

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr
from scipy.stats import rankdata
from tqdm import tqdm

from analysis.reproduction.experiments.audit import evidence_at_epoch
from analysis.reproduction.experiments.classifier import load_classifier, logit_margin, pair_sum_gradients
from analysis.reproduction.musat2024 import networks
from analysis.reproduction.verification.estimate import Estimate, as_percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.final_frames import expand_to_runs
from analysis.reproduction.verification.samples import estimate_mean
from analysis.statistics.intervals import NO_INTERVAL, clustered_binomial_interval
from analysis.statistics.resampling import jackknife_runs
from dynamics.trajectory.diverged import not_diverged

REPULSIONS = tuple(float(each) for each in np.round(np.arange(-0.75, 4.01, 0.25), 2))
"""Powers p of laws of repulsion 1 / r^p; the paper's is 1. Not -1: a repulsion of the unlike that is
proportional to the distance is, but for shift and change of size, an attraction of the like that is."""
ATTRACTIONS = tuple(float(each) for each in np.round(np.arange(-2, 3.01, 0.25), 2))
"""Powers q of laws of attraction r^q; the paper's is 0."""
FORMING = (20, 100)
SOFT = 1e-9
"""Distances below this share of the pair sums' size count as none, as in the forces."""


def distance_law_fits(sums: np.ndarray, right: np.ndarray, force: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """R² of the four fields with other powers of the distance: (repulsion,) and (attraction,).

    sums, force (pair, axis), right (pair,). All at the pair sums themselves, each pair's force from its own loss; a
    shift of all, and a change of size, are taken out of the force and of the fields, as particles' normalisation does.
    """
    between = sums[:, None] - sums[None]
    r = np.linalg.norm(between, axis=-1)
    near = r <= SOFT * np.sqrt((sums**2).sum(axis=-1).mean())
    like = right[:, None] == right[None]
    safe = np.where(near, 1.0, r)
    unit = np.where(near[..., None], 0.0, between / safe[..., None])
    length = np.linalg.norm(sums, axis=-1, keepdims=True)
    toward = np.divide(sums, length, out=np.zeros_like(sums), where=length > 0)
    facing = (sums @ sums.T > 0) & ~np.eye(len(sums), dtype=bool)
    aligned = [(facing & like) @ toward, -((facing & ~like) @ toward)]
    repelled = [np.einsum("kl,kla->ka", np.where(like, 0.0, safe**-p), unit) for p in REPULSIONS]
    attracted = [-np.einsum("kl,kla->ka", np.where(like & ~near, safe**q, 0.0), unit) for q in ATTRACTIONS]
    y = remove_shift_and_scale(force, sums)
    push, pull, along = (remove_shift_and_scale(np.stack(each), sums) for each in (repelled, attracted, aligned))
    by_repulsion = [_explained(y, [each, pull[ATTRACTIONS.index(0.0)], *along]) for each in push]
    by_attraction = [_explained(y, [push[REPULSIONS.index(1.0)], each, *along]) for each in pull]
    return np.array(by_repulsion), np.array(by_attraction)


def remove_shift_and_scale(motion: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """What a shift of all pair sums (pair, axis), and a change of their size, leave of motions (..., pair, axis)."""
    base = np.stack([sums, *(np.broadcast_to(one, sums.shape) for one in np.eye(sums.shape[-1]))])
    basis = np.linalg.qr(base.reshape(len(base), -1).T)[0]
    flat = motion.reshape(*motion.shape[:-2], -1)
    return (flat - (flat @ basis) @ basis.T).reshape(motion.shape)


def _explained(force: np.ndarray, fields: Sequence[np.ndarray]) -> float:
    """R² of fields fitted to a force, all (pair, axis); NaN where there is none."""
    y, x = force.ravel(), np.stack([each.ravel() for each in fields], axis=-1)
    x = x / np.maximum(np.linalg.norm(x, axis=0), 1e-300)
    size = y @ y
    rest = y - x @ np.linalg.lstsq(x, y, rcond=1e-10)[0]
    return float(1 - rest @ rest / size) if size > 0 else np.nan


def nearest_neighbour_motion(
    sums: np.ndarray, right: np.ndarray, force: np.ndarray, taken: np.ndarray
) -> dict[str, float]:
    """Neighbours, a pair sum and the one nearest to it, each two once: how they move to or from each other.

    sums, force (pair, axis), right and taken (pair,), the right class and the one that the network takes it for. Of
    neighbours of different classes, then of the same: how many there are, how many are pushed apart or pulled
    together, and Spearman's correlation of that with their distance; of the same, how many are taken for one class.
    """
    force = remove_shift_and_scale(force, sums)
    r = np.linalg.norm(sums[:, None] - sums[None], axis=-1)
    np.fill_diagonal(r, np.inf)
    one, other = np.unique(np.sort(np.stack([np.arange(len(r)), r.argmin(axis=1)], axis=-1), axis=-1), axis=0).T
    distance = r[one, other]
    away = (sums[one] - sums[other]) / np.maximum(distance, 1e-300)[:, None]
    along = ((force[one] - force[other]) * away).sum(axis=-1)
    same, near = right[one] == right[other], distance > 0
    found: dict[str, float] = {}
    for name, chosen, part in (("unlike", ~same & near, along), ("like", same & near, -along)):
        found[f"{name}_count"] = float(chosen.sum())
        found[f"{name}_hits"] = float((part[chosen] > 0).sum())
        found[f"{name}_rank"] = _rank_correlation(part[chosen], distance[chosen])
    found["like_region"] = float((taken[one] == taken[other])[same & near].sum())
    return found


def _rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's rho of two quantities (case,); NaN of fewer than ten cases, or where one does not vary."""
    if len(first) < FEWEST or np.ptp(first) == 0 or np.ptp(second) == 0:
        return np.nan
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def push_distance_correlation(size: np.ndarray, margin: np.ndarray) -> dict[str, float]:
    """Spearman's correlation of a push's size with the distance from the boundary, on its right and wrong side.

    size, margin (pair,): margin is how far the right class's logit is above its strongest rival's.
    """
    right = margin > 0
    return {
        "right_side": _rank_correlation(size[right], margin[right]),
        "wrong_side": _rank_correlation(size[~right], -margin[~right]),
    }


FEWEST = 10

NEIGHBOURS = {
    "unlike_count": "neighbours of different classes",
    "unlike_hits": "of these, those that the gradient pushes apart",
    "unlike_rank": "Spearman's rho of that push and the distance",
    "like_count": "neighbours of the same class",
    "like_hits": "of these, those that the gradient pulls together",
    "like_rank": "Spearman's rho of that pull and the distance",
    "like_region": "of these, those that the network takes for one class",
    "right_side": "Spearman's rho of the push's size and the distance from the boundary, on its right side",
    "wrong_side": "the same on its wrong side",
}


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Laws of distance at the pair sums of networks, (weight_decay, epoch, run) and by power."""
    epochs = params.get("moments", FORMING)
    rows = [_of_decay(runner.ensemble(need), epochs) for need in tqdm(
        networks.ensembles(params), desc="laws of distance", unit="ensemble", disable=None, leave=False)]  # fmt: skip
    dims = ("weight_decay", "epoch", "run")
    data: dict[str, tuple] = {}
    for name, words in NEIGHBOURS.items():
        data[name] = (dims, np.stack([row[name] for row in rows]), {"long_name": words, "units": "1"})
    for name in ("repulsion", "attraction"):
        attrs = {"long_name": f"R² of the four fields by the power of {name}", "units": "1"}
        data[f"by_{name}"] = ((*dims, f"{name}_power"), np.stack([row[name] for row in rows]), attrs)
    coords = {"weight_decay": list(networks.DECAYS), "epoch": list(epochs), "run": np.arange(params["runs"]),
              "repulsion_power": list(REPULSIONS), "attraction_power": list(ATTRACTIONS)}  # fmt: skip
    return xr.Dataset(data, coords)


def _of_decay(trajectory: xr.Dataset, epochs: Sequence[int]) -> dict[str, np.ndarray]:
    """Of one weight decay, each (epoch, run, ...)."""
    kept, frames = not_diverged(trajectory), []
    for epoch in epochs:
        of = load_classifier(trajectory, int(np.abs(trajectory["step"].values - epoch).argmin()), kept)
        force, runs = pair_sum_gradients(of), range(len(of.sums))
        fits = [distance_law_fits(of.sums[run], of.right[run], force[run]) for run in runs]
        scores, margins = of.logits(of.sums), logit_margin(of)
        near = [
            nearest_neighbour_motion(of.sums[run], of.right[run], force[run], scores[run].argmax(axis=-1))
            | push_distance_correlation(np.linalg.norm(force[run], axis=-1), margins[run])
            for run in runs
        ]
        frame = {name: expand_to_runs(np.array([each[name] for each in near]), kept) for name in NEIGHBOURS}
        for place, (name, powers) in enumerate((("repulsion", REPULSIONS), ("attraction", ATTRACTIONS))):
            frame[name] = expand_to_runs(np.array([fit[place] for fit in fits]).reshape(-1, len(powers)), kept)
        frames.append(frame)
    return {name: np.stack([frame[name] for frame in frames]) for name in frames[0]}


DISTANCE = Experiment(
    "ca.distance",
    "by which power of the distance between pair sums the true gradient pushes and pulls",
    sizes={Size.QUICK: {"runs": 100}, Size.DEFAULT: {"runs": 100}, Size.FULL: {"runs": 100}},
    seconds={Size.QUICK: 9, Size.DEFAULT: 9, Size.FULL: 9},
    measure=measure,
    ensembles=networks.ensembles,
    depends={"moments": FORMING, "repulsions": REPULSIONS, "attractions": ATTRACTIONS, "soft": SOFT, "fewest": FEWEST},
    version=2,
    command="python -m analysis.audit",
)


SMALL = 0.2
"""Cohen's h of a small effect."""


def best_power(evidence: xr.Dataset, kind: str, decay: float, epoch: int) -> Estimate:
    """The power of the distance that explains most of the gradients, in the mean over networks.

    Between the powers tried by the parabola through the best and its neighbours; its interval is the jackknife's. At
    the end of what was tried it is no estimate, and says so.
    """
    curves = evidence_at_epoch(evidence, decay, epoch)[f"by_{kind}"].transpose("run", f"{kind}_power").values
    powers = evidence[f"{kind}_power"].values
    curves = curves[np.isfinite(curves).all(axis=1)]
    if not len(curves):
        return Estimate(NO_INTERVAL, 0, "networks", note="no network has a gradient")
    found = jackknife_runs(lambda those: parabola_vertex(powers, curves[those].mean(axis=0)), len(curves))
    middle = curves.mean(axis=0)
    usual = float(middle[np.flatnonzero(powers == (1.0 if kind == "repulsion" else 0.0))[0]])
    note = f"R² {middle.max():.3f}, by the paper's {usual:.3f}"
    if middle.argmax() in (0, len(powers) - 1):
        note += "; at the end of the powers that were tried"
    return Estimate(found, len(curves), "networks", float(middle.max() - usual), "gain of R²", note)


def parabola_vertex(x: np.ndarray, y: np.ndarray) -> float:
    """Where a curve on an even grid is highest, by a parabola through its highest point and that one's neighbours."""
    best = int(y.argmax())
    if best in (0, len(y) - 1):
        return float(x[best])
    before, here, after = y[best - 1 : best + 2]
    bend = before - 2 * here + after
    return float(x[best] + (x[1] - x[0]) * (0.5 * (before - after) / bend if bend < 0 else 0.0))


def moved_neighbours(evidence: xr.Dataset, kind: str, decay: float, epoch: int) -> Estimate:
    """Percentage of unlike neighbours that are pushed apart, or of like ones that are pulled together."""
    return _of_neighbours(evidence_at_epoch(evidence, decay, epoch), kind, "hits")


def same_region_neighbours(evidence: xr.Dataset, decay: float, epoch: int) -> Estimate:
    """Percentage of like neighbours that the network takes for one class."""
    return _of_neighbours(evidence_at_epoch(evidence, decay, epoch), "like", "region")


def _of_neighbours(here: xr.Dataset, kind: str, what: str) -> Estimate:
    here = here.dropna("run", subset=[f"{kind}_count"])
    hits, counts = here[f"{kind}_{what}"].values, here[f"{kind}_count"].values
    if not counts.sum():
        return Estimate(NO_INTERVAL, 0, "neighbours", note="there are none")
    found = clustered_binomial_interval(hits, counts)
    effect = 2 * math.asin(math.sqrt(found.value)) - math.pi / 2
    note = "hardly other than half and half" if abs(effect) < SMALL else ""
    return Estimate(as_percentage(found), int(counts.sum()), "neighbours", effect, "Cohen's h against a half", note)


def distance_correlation(evidence: xr.Dataset, kind: str, decay: float, epoch: int) -> Estimate:
    """Mean over networks of Spearman's correlation of a push or pull with a distance."""
    found = estimate_mean(evidence_at_epoch(evidence, decay, epoch)[kind], "networks")
    return found._replace(effect=found.interval.value, effect_name="Spearman's rho")
