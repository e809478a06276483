"""CA sections 5 to 7: the classifier that the layers after the embedding form, and what weight decay does to it."""

import numpy as np
import xarray as xr

from analysis.forces.alignment import DEAD_NORM_FRACTION, PERMUTATIONS, embedding_pair_sums, pair_sum_collinearity
from analysis.forces.pair_sum_classifier import ANGLES, CLASSIFIER_MEASURES, RADII, Classifier, classifier_measures
from analysis.reproduction.musat2024 import networks
from analysis.reproduction.verification import final_frames, samples
from analysis.reproduction.verification.claim import Claim, claims_of, finding, main_result, part
from analysis.reproduction.verification.criteria import Above, Below
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, sized
from analysis.structures.circles_and_grids import is_circle
from dynamics.tasks import modular_sum


def load_classifier(trajectory: xr.Dataset, at: int, kept: np.ndarray) -> Classifier:
    """The classifier of the runs that are kept (run,) bool, in a recorded frame, with their training pairs."""
    embedding, *layers = (final_frames.frame_values(trajectory, name, at)[kept] for name in final_frames.WEIGHTS)
    pairs = final_frames.training_pairs_of_runs(trajectory)[kept]
    return Classifier._make([*layers, embedding_pair_sums(embedding, pairs), modular_sum(pairs, embedding.shape[-2])])


QUANTITIES = {
    "circle": "whether it is a circle by CA algorithm 1",
    "rays": "fraction of the pair sums' variance along their class's line through the origin",
    "rays_chance": "the same with tokens renamed at random",
    **CLASSIFIER_MEASURES,
}


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Pair sums and classifiers at the end of training, (weight_decay, run)."""
    return networks.measure_by_weight_decay(runner, networks.ensembles(params), QUANTITIES, _measure_runs)


def _measure_runs(trajectory: xr.Dataset, kept: np.ndarray) -> dict[str, np.ndarray]:
    embedding = final_frames.frame_values(trajectory, "embedding", -1)[kept]
    rays = pair_sum_collinearity(embedding, final_frames.training_pairs_of_runs(trajectory)[kept])
    found = {"circle": is_circle(embedding), "rays": rays.value, "rays_chance": rays.chance}
    return found | classifier_measures(load_classifier(trajectory, -1, kept))


CLASSIFIER = Experiment(
    "ca.classifier",
    "pair sums and the classifier: its steepness, where its gradient is large, its regions, at four weight decays",
    measure=measure,
    quick=sized(3, runs=100),
    default=sized(18, runs=1000, every=0),
    ensembles=networks.ensembles,
    depends={"angles": ANGLES, "radii": RADII, "dead": DEAD_NORM_FRACTION, "permutations": PERMUTATIONS},
    version=3,
    command="python -m analysis.paper ca-e",
)


def clustered_accuracy_gain(evidence: xr.Dataset, decay: float) -> Estimate:
    """Training accuracy of pair sums whose nearest other is of the same class minus that of the others, in points; of
    networks that are not circles."""
    others = networks.networks_of_kind(evidence, decay)
    like, unlike = 100 * others["right_near_like"], 100 * others["right_near_unlike"]
    return samples.paired_difference(like, unlike, "networks that have both")


def boundary_distance_ratio(evidence: xr.Dataset) -> Estimate:
    """Distance of boundaries from the origin without weight decay over that at 1; the note is relative to pair sums."""
    none, one = (networks.mean_at_decay(evidence, "relative_offset", decay).interval.value for decay in (0.0, 1.0))
    ratio = networks.ratio_without_decay(evidence, "offset")
    note = f"as a fraction of the pair sums' size: {none:.2f} without weight decay, {one:.2f} with weight decay 1"
    return ratio._replace(note=ratio.note or note)


def rays_of_circles(evidence: xr.Dataset) -> Estimate:
    """Mean fraction of variance along the classes' lines, over seeds that have circles; chance in the note."""
    found, chance = networks.mean_in_circles(evidence, "rays"), evidence["rays_chance"].where(evidence["circle"] == 1)
    return found._replace(note=found.note or f"{chance.mean():.2f} with tokens renamed at random")


OFFSET_RATIO = part(boundary_distance_ratio, Above(1, 1), "ratio", "times", digits=2)

CLAIMS = claims_of(
    CLASSIFIER,
    finding(
        "CA.s5.classified",
        "Clusters of pair sums with the same modular sum enable the network to classify them.",
        "training accuracy of pair sums whose nearest other is of the same class, minus that of the network's other "
        "pair sums; networks with weight decay 0.6 that are not circles",
        (part(clustered_accuracy_gain, Above(0, 5), "clustered minus others", "points", decay=0.6),),
        figure="ca3",
    ),
    finding(
        "CA.s5.1.narrow",
        "Without weight decay the boundaries between classes become very narrow; with it they are wide.",
        "inverse of a boundary's relative width: slope of the logit margin (right class's logit minus the strongest "
        "other's) at a pair sum, times the size of the pair sums; median without weight decay over that at 1",
        (part(networks.ratio_without_decay, Above(1, 1), "ratio", "times", name="relative_steepness"),),
        meaning="narrow boundaries would not be what stops the embeddings without weight decay",
    ),
    Claim(
        "CA.s5.1.nowhere",
        "Without weight decay the clustering force is strong in a narrow region and nearly zero elsewhere.",
        "participation ratio of the gradient over training pair sums, as a fraction, at the end without weight decay",
        (
            part(networks.difference, Below(0, 0.05), "minus that at 1", digits=2, name="evenness", at=(0, 1)),
            part(networks.mean_at_decay, Below(0.25, ours=True), "fraction", digits=2, name="evenness", decay=0.0),
        ),
    ),
    main_result(
        "CA.figure4.rays",
        "In circles the pair sums of a class lie on a line through the origin.",
        "fraction of the pair sums' squared length along their class's line, and minus that in other networks",
        (
            part(rays_of_circles, Above(0.95, ours=True), "circles", digits=3),
            part(networks.circles_minus_others, Above(0, 0.1), "minus others", digits=3, name="rays"),
        ),
    ),
    finding(
        "CA.figure4.pizza",
        "In circles the regions of the classes start at the origin, like slices of a pizza.",
        "percentage of points, at 1/4, 1/2 and 3/4 of the longest pair sum's length, that are in the class further out "
        "in the same direction: in circles, and minus that in other networks of equal weight decay",
        (
            part(networks.mean_in_circles, Above(50, 10, ours=True), "circles", "%", name="slices", unit=100),
            part(networks.circles_minus_others, Above(0, 10), "minus others", "points", name="slices", unit=100),
        ),
    ),
    Claim(
        "CA.s5.2.pizza",
        "Circles correspond exactly to the pizza algorithm that Zhong et al. found.",
        "Pearson's r of a pair sum's length and the right class's logit in circles, and minus that in other networks: "
        "unlike the clock algorithm, the pizza algorithm gives longer pair sums larger logits",
        (
            part(networks.mean_in_circles, Above(0.5, ours=True), "circles", digits=2, name="longer"),
            part(networks.circles_minus_others, Above(0, 0.1), "minus others", digits=2, name="longer"),
        ),
        departure="tests one property that distinguishes pizza from clock, not the whole algorithm",
    ),
    finding(
        "CA.s7.origin",
        "Weight decay keeps the boundaries at which hidden units become active very close to the origin.",
        "mean distance of the units' boundaries from the origin at the end, without weight decay over that at 1",
        (OFFSET_RATIO,),
        readings=("absolute distance", "distance relative to the size of the pair sums, which the note gives"),
        meaning="there would be no point around which alignment could take place",
    ),
    Claim(
        "CA.s7.origin-absolute",
        "Without weight decay biases could get so large that the boundaries lie far from the origin.",
        "the same ratio of absolute distances",
        (OFFSET_RATIO,),
    ),
)
