"""CA section 5.2 and figure 4: pair sums of circles on lines through the origin, and
the pizza algorithm."""

import numpy as np
import xarray as xr

from analysis.forces import pair_sum_classifier
from analysis.forces.alignment import (
    PERMUTATIONS,
    embedding_pair_sums,
    pair_sum_collinearity,
)
from analysis.forces.pair_sum_classifier import Classifier
from analysis.progress_measures import distance_irrelevance
from analysis.reproduction.claim import Claim, Number, Sign, printed_number
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import (
    WEIGHTS,
    Experiment,
    Params,
    Runner,
    Sizing,
    frame_values,
    training_pairs_of_runs,
)
from analysis.reproduction.musat2024 import networks
from analysis.structures.circles_and_grids import is_circle
from dynamics.tasks import modular_sum

QUANTITIES = {
    "circle": "whether it is a circle by CA algorithm 1",
    "rays": (
        "fraction of the pair sums' squared length along their class's line through the"
        " origin"
    ),
    "rays_chance": "the same with tokens renamed at random",
    "irrelevance": "distance irrelevance: 0 for a pizza, near 1 for a clock",
    "slices": "fraction of the plane that is in the class further out in its direction",
}


def load_classifier(trajectory: xr.Dataset, at: int) -> Classifier:
    """The classifiers of runs in a recorded frame, with their training pairs."""
    embedding, *layers = (frame_values(trajectory, name, at) for name in WEIGHTS)
    pairs = training_pairs_of_runs(trajectory)
    sums = embedding_pair_sums(embedding, pairs)
    return Classifier._make([*layers, sums, modular_sum(pairs, embedding.shape[-2])])


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Pair sums and classifiers at the end of training, (weight_decay, run)."""
    return networks.measure_by_weight_decay(
        runner, networks.ensembles(params), QUANTITIES, _measure_runs
    )


def _measure_runs(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    embedding = frame_values(trajectory, "embedding", -1)
    rays = pair_sum_collinearity(embedding, training_pairs_of_runs(trajectory))
    classifier = load_classifier(trajectory, -1)
    n = embedding.shape[1]
    pairs = np.indices((n, n)).reshape(2, -1).T
    logits = classifier.logits(embedding_pair_sums(embedding, pairs))
    return {
        "circle": is_circle(embedding),
        "rays": rays.value,
        "rays_chance": rays.chance,
        "irrelevance": distance_irrelevance(logits.reshape(-1, n, n, n)),
        "slices": pair_sum_classifier.radial_agreement(classifier),
    }


def rays_above_chance(evidence: xr.Dataset) -> Estimate:
    """How much of the squared length of pair sums lies along the line of their class, in
    percent, less the same after renaming tokens at random; mean over circles."""
    excess = evidence["rays"] - evidence["rays_chance"]
    return networks.mean_in_circles(evidence.assign(excess=excess), "excess", 100)


RAYS = Claim(
    "CA.figure4.rays",
    "section 5.2, on figure 4",
    "they are aligned along lines that pass through the origin",
    "In circles the pair sums of a class lie on a line through the origin.",
    (
        Number(
            rays_above_chance,
            Sign.POSITIVE,
            "fraction of the squared length of pair sums that is along the lines of"
            " their classes, less the same after renaming tokens at random",
            "points",
        ),
        Number(
            lambda evidence: networks.circles_minus_others(evidence, "rays", 100),
            Sign.POSITIVE,
            "the same fraction, circles less other networks",
            "points",
        ),
    ),
    "Both differences are about as large as they can be. Every regular polygon has"
    " this property; circles are picked by their norms alone, so that they could lack"
    " it. Circles of all weight decays, those of one seed counted as one.",
    summary="in circles the pair sums of a class lie on a line through the origin",
    figure="ca4",
)
PIZZA = Claim(
    "CA.s5.2.pizza",
    "section 5.2, on figure 4",
    "This model corresponds exactly to the “pizza” algorithm described by Zhong",
    "Circles implement the pizza algorithm of Zhong et al. (ZL).",
    (
        Number(
            lambda evidence: networks.circles_minus_others(evidence, "irrelevance"),
            Sign.NEGATIVE,
            "distance irrelevance, circles less other networks",
            digits=2,
        ),
        Number(
            lambda evidence: networks.mean_in_circles(evidence, "irrelevance"),
            printed_number("0.17 (ZL, model A)", 1),
            "distance irrelevance of circles",
            digits=2,
        ),
        Number(
            lambda evidence: networks.circles_minus_others(evidence, "slices", 100),
            Sign.POSITIVE,
            "points of the plane whose class is that of the longest pair sum in their"
            " direction, circles less other networks",
            "points",
        ),
    ),
    "Distance irrelevance is 0 if the correct logit depends only on the difference of"
    " the two numbers, as in an ideal pizza, and near 1 if it does not depend on it, as"
    " in a clock. ZL prints it for one pizza network of another architecture, so the"
    " comparison is coarse. Points are at 1/4, 1/2 and 3/4 of the longest pair sum.",
    summary="circles compute by the pizza algorithm",
    figure="ca4",
)

CLASSIFIER = Experiment(
    "ca.classifier",
    "pair sums and the classifier of networks at the end, at four weight decays",
    measure,
    quick=Sizing(2, {"runs": 100}),
    default=Sizing(9, {"runs": 1000, "every": 0}),
    ensembles=networks.ensembles,
    depends={
        "angles": pair_sum_classifier.ANGLES,
        "radii": pair_sum_classifier.RADII,
        "permutations": PERMUTATIONS,
    },
    version=5,
    command="python -m analysis.paper ca-e",
    claims=(RAYS, PIZZA),
)
