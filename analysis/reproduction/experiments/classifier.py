"""CA sections 5 and 7: the classifier that a network's later layers form, at its pair sums and between them.

Arrays are of all runs: pair sums (run, pair, axis), right classes (run, pair). All values are dimensionless.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.spatial import cKDTree

from analysis.forces.alignment import DEAD_NORM_FRACTION, embedding_pair_sums, unit_norm_fractions
from analysis.reproduction.musat2024 import networks
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.final_frames import (
    WEIGHTS,
    expand_to_runs,
    frame_values,
    training_pairs_of_runs,
)
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.samples import estimate_mean, finite_values, paired_difference, paired_ratio
from analysis.structures.circles_and_grids import is_circle
from dynamics.tasks import modular_sum
from dynamics.trajectory.diverged import not_diverged

ANGLES, RADII = 180, (0.25, 0.5, 0.75)
"""Directions in the plane, and shares of the largest pair sum's length at which their classes are compared."""


class Classifier(NamedTuple):
    """The layers after the embedding of some runs, and what they are trained on."""

    hidden: np.ndarray  # (run, hidden, axis)
    bias: np.ndarray  # (run, hidden)
    output: np.ndarray  # (run, class, hidden)
    output_bias: np.ndarray  # (run, class)
    sums: np.ndarray  # (run, pair, axis)
    right: np.ndarray  # (run, pair)

    def active(self, x: np.ndarray) -> np.ndarray:
        """Input of each unit at points (run, point, axis): (run, point, hidden)."""
        return np.einsum("rpa,rha->rph", x, self.hidden) + self.bias[:, None]

    def logits(self, x: np.ndarray) -> np.ndarray:
        """Scores at points (run, point, axis): (run, point, class)."""
        scores = np.einsum("rph,rch->rpc", np.maximum(self.active(x), 0), self.output)
        return scores + self.output_bias[:, None]

    def slopes(self, weight: np.ndarray) -> np.ndarray:
        """Gradient at each pair sum of the logits summed with weights (run, pair, class): (run, pair, axis)."""
        through = np.einsum("rpc,rch->rph", weight, self.output) * (self.active(self.sums) > 0)
        return np.einsum("rph,rha->rpa", through, self.hidden)


def load_classifier(trajectory: xr.Dataset, at: int, kept: np.ndarray) -> Classifier:
    """Of the runs that are kept (run,) bool, in a recorded frame, at the pairs that they are trained on."""
    embedding, *layers = (frame_values(trajectory, name, at)[kept] for name in WEIGHTS)
    pairs = training_pairs_of_runs(trajectory)[kept]
    hidden, bias, output, output_bias = layers
    sums, right = embedding_pair_sums(embedding, pairs), modular_sum(pairs, embedding.shape[-2])
    return Classifier(hidden, bias, output, output_bias, sums, right)


def pair_sum_gradients(of: Classifier) -> np.ndarray:
    """Minus the gradient of each pair's own cross-entropy with respect to its pair sum: (run, pair, axis)."""
    scores = of.logits(of.sums)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    wrong = scores / scores.sum(axis=-1, keepdims=True)
    np.put_along_axis(wrong, of.right[..., None], np.take_along_axis(wrong, of.right[..., None], -1) - 1, -1)
    return -of.slopes(wrong)


def logit_steepness(of: Classifier) -> np.ndarray:
    """Slope, across a pair sum, of the right class's logit over that of its strongest rival: (run, pair).

    A softmax boundary between the two has a width of the inverse of it.
    """
    scores = of.logits(of.sums)
    right = of.right[..., None]
    rivals = scores.copy()
    np.put_along_axis(rivals, right, -np.inf, -1)
    weight = np.zeros_like(scores)
    np.put_along_axis(weight, rivals.argmax(axis=-1)[..., None], -1.0, -1)
    np.put_along_axis(weight, right, 1.0, -1)
    return np.linalg.norm(of.slopes(weight), axis=-1)


def logit_margin(of: Classifier) -> np.ndarray:
    """How far the right class's logit is above its strongest rival's: (run, pair)."""
    scores = of.logits(of.sums)
    right = np.take_along_axis(scores, of.right[..., None], -1)
    np.put_along_axis(scores, of.right[..., None], -np.inf, -1)
    return right[..., 0] - scores.max(axis=-1)


def force_evenness(sizes: np.ndarray) -> np.ndarray:
    """Share of the pair sums that would carry all the force if they shared it evenly: (run, pair) -> (run,), 0 to 1.

    The participation ratio: 1 where all are alike, 1 over their number where one alone has any.
    """
    total, squares = sizes.sum(axis=-1), (sizes**2).sum(axis=-1)
    return np.divide(total**2, squares, out=np.full(len(sizes), np.nan), where=squares > 0) / sizes.shape[-1]


def radial_agreement(of: Classifier) -> np.ndarray:
    """Share of points in the plane that are of the class that lies further out in their direction: (run,)."""
    turn = 2 * np.pi * np.arange(ANGLES) / ANGLES
    outward = np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    reach = np.linalg.norm(of.sums, axis=-1).max(axis=-1)[:, None, None]
    border = of.logits(reach * outward).argmax(axis=-1)
    inside = [of.logits(radius * reach * outward).argmax(axis=-1) == border for radius in RADII]
    return np.mean(inside, axis=(0, 2))


def length_logit_correlation(of: Classifier) -> np.ndarray:
    """Pearson's r over pairs of a pair sum's length and the right class's logit: (run,)."""
    length = np.linalg.norm(of.sums, axis=-1)
    right = np.take_along_axis(of.logits(of.sums), of.right[..., None], -1)[..., 0]
    one, other = (each - each.mean(axis=-1, keepdims=True) for each in (length, right))
    size = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    return np.divide((one * other).sum(axis=-1), size, out=np.full(len(size), np.nan), where=size > 0)


def accuracy_by_nearest_class(of: Classifier) -> dict[str, np.ndarray]:
    """Share of pairs that are classified right, by whether the nearest other pair sum is of their class: each (run,).

    NaN where there is no such pair.
    """
    correct = of.logits(of.sums).argmax(axis=-1) == of.right
    near = np.array([cKDTree(sums).query(sums, 2)[1] for sums in of.sums]).reshape(*of.right.shape, 2)
    other = np.where(near[..., 0] == np.arange(of.right.shape[1]), near[..., 1], near[..., 0])  # not the pair itself
    like = np.take_along_axis(of.right, other, -1) == of.right
    found = {}
    for name, those in (("right_near_like", like), ("right_near_unlike", ~like)):
        count = those.sum(axis=-1).astype(float)
        found[name] = np.divide((correct & those).sum(axis=-1), count, out=np.full(len(count), np.nan), where=count > 0)
    return found


def activation_offset(of: Classifier) -> np.ndarray:
    """Mean distance from the origin at which living units begin to be active, by their weights' norms: (run,)."""
    share = unit_norm_fractions(of.sums, of.hidden, of.bias)
    norm = np.linalg.norm(of.hidden, axis=-1)
    distance = np.divide(np.abs(of.bias), norm, out=np.zeros_like(norm), where=norm > 0)
    return (share * distance).sum(axis=-1)


QUANTITIES = {
    "circle": "whether it is a circle by CA algorithm 1",
    "relative_steepness": "median over pairs of the slope of the right class's logit over its rival's, per root mean "
    "square length of the pair sums",
    "evenness": "participation ratio of the pushes on pair sums",
    "offset": "mean distance of units' boundaries from the origin",
    "relative_offset": "the same per root mean square length of the pair sums",
    "slices": "share of the plane that is of the class further out in its direction",
    "longer": "Pearson's r of a pair sum's length and the right class's logit",
    "right_near_like": "share that is classified right of the training pairs whose nearest pair sum is of their class",
    "right_near_unlike": "the same of the training pairs whose nearest pair sum is of another class",
}


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """The classifiers at the end of training, (weight_decay, run)."""
    rows = [_row(runner.ensemble(need)) for need in networks.ensembles(params)]
    data = {name: (networks.DIMS, np.stack([row[name] for row in rows]), {"long_name": words, "units": "1"})
            for name, words in QUANTITIES.items()}  # fmt: skip
    return xr.Dataset(data, {"weight_decay": list(networks.DECAYS), "run": np.arange(params["runs"])})


def _row(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    kept = not_diverged(trajectory)
    of = load_classifier(trajectory, -1, kept)
    steep, reach, size = (
        np.median(logit_steepness(of), axis=-1),
        activation_offset(of),
        np.sqrt((of.sums**2).sum(-1).mean(-1)),
    )
    found = {
        "circle": is_circle(frame_values(trajectory, "embedding", -1)[kept]),
        "relative_steepness": steep * size,
        "evenness": force_evenness(np.linalg.norm(pair_sum_gradients(of), axis=-1)),
        "offset": reach,
        "relative_offset": reach / size,
        "slices": radial_agreement(of),
        "longer": length_logit_correlation(of),
        **accuracy_by_nearest_class(of),
    }
    return {name: expand_to_runs(values, kept) for name, values in found.items()}


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Those of table 1."""
    return networks.ensembles(params)


CLASSIFIER = Experiment(
    "ca.classifier",
    "how steep the classifier is, where it pushes, and what its regions look like, at four weight decays",
    sizes={Size.QUICK: {"runs": 100}, Size.DEFAULT: {"runs": 1000, "every": 0}, Size.FULL: {"runs": 1000, "every": 0}},
    seconds={Size.QUICK: 2, Size.DEFAULT: 4, Size.FULL: 4},
    measure=measure,
    ensembles=ensembles,
    depends={"angles": ANGLES, "radii": RADII, "dead": DEAD_NORM_FRACTION},
    version=2,
    command="python -m analysis.paper ca-e",
)


# --------------------------------------------------------------------------------------------------- findings


def ratio_without_decay(evidence: xr.Dataset, name: str) -> Estimate:
    """A quantity without weight decay over that at weight decay 1, a geometric mean over seeds."""
    values = evidence[name]
    return paired_ratio(values.sel(weight_decay=0.0), values.sel(weight_decay=1.0), "seeds")


def difference_without_decay(evidence: xr.Dataset, name: str) -> Estimate:
    """A quantity without weight decay less that at weight decay 1."""
    values = evidence[name]
    return paired_difference(values.sel(weight_decay=0.0), values.sel(weight_decay=1.0), "seeds")


def classifier_mean(evidence: xr.Dataset, name: str, decay: float) -> Estimate:
    """Mean of a quantity at a weight decay."""
    return estimate_mean(finite_values(evidence[name].sel(weight_decay=decay)), "networks")


def clustered_accuracy_gain(evidence: xr.Dataset, decay: float) -> Estimate:
    """Training accuracy of pair sums whose nearest is of their class less that of the others, in points.

    Within networks that are not circles and have both; they count alike.
    """
    row = evidence.sel(weight_decay=decay)
    row = row.isel(run=row["circle"].values == 0)
    return paired_difference(100 * row["right_near_like"], 100 * row["right_near_unlike"], "networks that have both")
