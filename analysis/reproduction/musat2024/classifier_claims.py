"""CA sections 5 to 7: the classifier that the layers after the embedding form, and what
weight decay does to it.

Also whether its hidden weights align with pair sums in circles (CA section 5.2), for
several numbers of tokens."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.forces import alignment, pair_sum_classifier
from analysis.forces.pair_sum_classifier import Classifier
from analysis.progress_measures import distance_irrelevance
from analysis.reproduction.musat2024 import networks
from analysis.reproduction.verification import (
    WEIGHTS,
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    declare_experiment,
    experiment_runs,
    frame_values,
    samples,
    training_pairs_of_runs,
)
from analysis.structures.circles_and_grids import is_circle
from analysis.structures.fourier import dominant_frequency, power_fractions
from dynamics.settings import ModularSettings
from dynamics.tasks import modular_sum
from dynamics.trajectory.diverged import not_diverged

CONSTANTS = {
    "angles": pair_sum_classifier.ANGLES,
    "radii": pair_sum_classifier.RADII,
    "dead": alignment.DEAD_NORM_FRACTION,
    "permutations": alignment.PERMUTATIONS,
}
PIZZA = 0.5
"""Distance irrelevance in the middle between a pizza and a clock."""
QUANTITIES = {
    "circle": "whether it is a circle by CA algorithm 1",
    "rays": (
        "fraction of the pair sums' variance along their class's line through the"
        " origin"
    ),
    "rays_chance": "the same with tokens renamed at random",
    "irrelevance": "distance irrelevance: 0 for a pizza, near 1 for a clock",
    **pair_sum_classifier.CLASSIFIER_MEASURES,
}


def load_classifier(trajectory: xr.Dataset, at: int) -> Classifier:
    """The classifiers of runs in a recorded frame, with their training pairs."""
    embedding, *layers = (frame_values(trajectory, name, at) for name in WEIGHTS)
    pairs = training_pairs_of_runs(trajectory)
    sums = alignment.embedding_pair_sums(embedding, pairs)
    return Classifier._make([*layers, sums, modular_sum(pairs, embedding.shape[-2])])


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Pair sums and classifiers at the end of training, (weight_decay, run)."""
    return networks.measure_by_weight_decay(
        runner, networks.ensembles(params), QUANTITIES, _measure_runs
    )


def _measure_runs(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    embedding = frame_values(trajectory, "embedding", -1)
    rays = alignment.pair_sum_collinearity(
        embedding, training_pairs_of_runs(trajectory)
    )
    classifier = load_classifier(trajectory, -1)
    n = embedding.shape[1]
    pairs = np.indices((n, n)).reshape(2, -1).T
    logits = classifier.logits(alignment.embedding_pair_sums(embedding, pairs))
    return {
        "circle": is_circle(embedding),
        "irrelevance": distance_irrelevance(logits.reshape(-1, n, n, n)),
        "rays": rays.value,
        "rays_chance": rays.chance,
        **pair_sum_classifier.classifier_measures(classifier),
    }


CLASSIFIER = declare_experiment(
    "ca.classifier", measure, networks.ensembles, depends=CONSTANTS
)


def pizza_circles(evidence: xr.Dataset) -> Estimate:
    """Percentage of the seeds that have circles of which all circles are nearer to a
    pizza than to a clock."""
    circles = evidence["irrelevance"].where(evidence["circle"] == 1)
    largest = circles.max("weight_decay").dropna("run")
    return samples.percentage_of_ones(largest < PIZZA, "seeds that have circles")


def rays_of_circles(evidence: xr.Dataset) -> Estimate:
    """Mean fraction of variance along the classes' lines, over seeds that have circles;
    chance in the note."""
    estimate = networks.mean_in_circles(evidence, "rays")
    chance = evidence["rays_chance"].where(evidence["circle"] == 1)
    high = min(estimate.interval.high, 1.0)
    return estimate._replace(
        interval=estimate.interval._replace(high=high),
        note=estimate.note or f"{chance.mean():.2f} with tokens renamed at random",
    )


EPOCHS = (100, 200, 500, 1000, 2000)
EVERY = 100


def angle_ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks with weight decay 1 of several numbers of tokens."""
    settings = [ModularSettings(n=n, weight_decay=1.0) for n in params["tokens"]]
    return [experiment_runs(one, params, EVERY) for one in settings]


def measure_angles(runner: Runner, params: Params) -> xr.Dataset:
    """Angles in degrees between hidden units and the nearest pair sum, in networks that
    end as circles."""
    return xr.concat(
        [_angles_of_circles(runner.ensemble(need)) for need in angle_ensembles(params)],
        "circle",
    )


def _angles_of_circles(trajectory: xr.Dataset) -> xr.Dataset:
    """Angles of the weights and of the boundaries, (epoch, direction, circle), beside
    those of random directions."""
    end, steps = frame_values(trajectory, "embedding", -1), trajectory["step"].values
    circles = np.flatnonzero(not_diverged(trajectory) & is_circle(end))
    n, angles = end.shape[1], []
    for epoch in EPOCHS:
        frame = int(np.abs(steps - epoch).argmin())
        of = load_classifier(trajectory.isel(run=circles), frame)
        units = (of.sums, of.hidden, of.bias)
        angles.append(
            [alignment.weight_angles(*units), alignment.boundary_angles(*units)]
        )
    of_units, of_random = np.moveaxis(np.array(angles), 2, 0)
    corners = n // np.gcd(dominant_frequency(power_fractions(end[circles])), n)
    dims = ("epoch", "direction", "circle")
    words = "mean angle between {} and the nearest pair sum"
    columns = {
        "angle": (dims, of_units, words.format("hidden units"), "degrees"),
        "random": (dims, of_random, words.format("random directions"), "degrees"),
        "tokens": ("circle", np.full(len(circles), n), "number of tokens N", "1"),
        "corners": (
            "circle",
            corners,
            "number of corners of the polygon of tokens",
            "1",
        ),
    }
    data = {
        name: (dims, values, {"long_name": about, "units": units})
        for name, (dims, values, about, units) in columns.items()
    }
    return xr.Dataset(
        data, {"epoch": list(EPOCHS), "direction": ["weight", "boundary"]}
    )


WEIGHT_ANGLES = declare_experiment(
    "ca.weight-angles",
    measure_angles,
    angle_ensembles,
    depends={"epochs": EPOCHS, "every": EVERY, "directions": alignment.DIRECTIONS},
)


def relative_angle(
    evidence: xr.Dataset,
    direction: str,
    epoch: int = EPOCHS[-1],
    tokens: int | None = None,
    odd: bool | None = None,
) -> Estimate:
    """Angle to the nearest pair sum divided by that of random directions, in circles of
    N tokens, or polygons of odd or even corners."""
    chosen = np.ones(evidence.sizes["circle"], bool)
    if tokens is not None:
        chosen &= evidence["tokens"].values == tokens
    if odd is not None:
        chosen &= evidence["corners"].values % 2 == odd
    here = evidence.isel(circle=chosen).sel(epoch=epoch, direction=direction)
    note = (
        f"{here['angle'].mean():.1f}° against {here['random'].mean():.1f}°"
        if chosen.any()
        else ""
    )
    return samples.estimate_mean(here["angle"] / here["random"], "circles", note)
