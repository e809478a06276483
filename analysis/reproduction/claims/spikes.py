"""VC section 4.3, figures 12 to 14: spikes of the loss, causes and remedies; figures 4 and 5 of CH; and our own."""

from analysis.reproduction.experiments import normalisation, remedies, spikes
from analysis.reproduction.verification.claim import Claim, Measurement, part
from analysis.reproduction.verification.criteria import Above, Below, Every, Exists

REPLAYED = (
    "every spike of the training loss is replayed step by step, and the step on which it rises most is "
    "attributed (`analysis.transitions.spike_attribution`)"
)

OF_TWO = "one of two aspects that are named, so one spike in ten at least"

FLIP = part(spikes.caused_spikes, Above(10), "carried by a flip", "%", causes=spikes.FLIPS)
TURNED = part(spikes.turned_spikes, Above(10), f"turn by more than {spikes.TURN:g} degrees", "%")
CROSSING = part(spikes.caused_spikes, Above(10), "carried by crossings", "%", causes=spikes.CROSSINGS)
RATE = "spikes in 1000 epochs after the escape"

OF_EITHER = (
    part(spikes.caused_spikes, Above(50), "flips or crossings", "%", causes=spikes.CAUSES),
    part(spikes.caused_or_turned, Above(50), f"flips, crossings, or turns by more than {spikes.TURN:g} degrees", "%"),
)
BY_TURN = (
    "the same with those counted in whose step normalised sequence embeddings turn by more than "
    f"{spikes.TURN:g} degrees, in the mean over sequences by what each has of the rise"
)

NORM_READINGS = (
    "an update longer than a short vector turns x / |x| around, as the text argues with steps longer than |x|",
    "short of that, small updates turn short vectors far (see CH.figure5.normalisation), which a smooth norm undoes "
    "(see VC.s4.3.smoothing)",
)
CH_NORM_READINGS = (
    "x / |x| changes a lot: it turns far, if by less than a right angle",
    "an update longer than a short vector turns x / |x| around, as VC's text argues",
)


def _spike_change_with_remedy(remedy: str) -> Measurement:
    """Fewer spikes with a remedy."""
    return part(remedies.spike_rate_change, Below(0, 1), f"{remedy}: {RATE}", remedy=remedy)


VC_CLAIMS = (
    Claim(
        "VC.s4.3.spikes",
        "The small model has loss spikes, which can be studied.",
        "percentage of runs with a spike of the training loss (`analysis.transitions.change_points`); one is enough",
        experiment="vc.spikes",
        parts=(part(spikes.runs_with_spikes, Exists(), "runs that spike", "%"),),
        places="section 4.3",
        figure="vc16",
        meaning="there would be nothing to study",
    ),
    Claim(
        "VC.s4.3.two-causes",
        "Two things are behind loss spikes: high curvature of the feed-forward layer, and of the "
        "normalisation near the origin.",
        f"{REPLAYED}: percentage of spikes of which flips of normalised vectors, or sequences that cross a "
        f"decision boundary, or both carry half or more of the rise; {BY_TURN}",
        experiment="vc.spikes",
        parts=OF_EITHER,
        readings=NORM_READINGS,
        places="section 4.3, abstract, conclusion",
        figure="vc13",
        importance=2,
        meaning="much of the spiking would have other causes",
    ),
    Claim(
        "VC.figure12.out-of-proportion",
        "Near the origin a small modification of a vector can change its normalised version out of all proportion.",
        "percentage of random points nearer than .05 to the origin, in 2, 3 and 8 axes, at which a random "
        "modification of .01 or less changes x / |x| by more than 10 times its length; one is enough",
        experiment="vc.normalisation",
        parts=(part(normalisation.disproportionate_changes, Exists(), "", "%"),),
        places="figure 12, section 4.3",
        figure="vc12",
        meaning="the normalisation would have no high curvature",
    ),
    Claim(
        "VC.s4.3.step-below-length",
        "A step of size eta from x towards the origin leaves f(x) = x / |x| unchanged if and only if eta < |x|.",
        "percentage of random points and steps for which it does exactly then; and of those with a longer "
        "step for which f becomes its opposite; float64, lengths and steps from 1e-4 to 1",
        experiment="vc.normalisation",
        parts=(
            part(normalisation.unchanged_below_length, Every(), "unchanged if and only if", "%"),
            part(normalisation.flips_beyond_length, Every(), "turned around beyond", "%"),
        ),
        places="section 4.3, figure 12",
        figure="vc12",
        meaning="the argument for a smooth norm would not stand",
    ),
    Claim(
        "VC.s4.3.scheduled-steps",
        "Where a vector is close to zero, a step size that is fixed beforehand is hard to keep below its length.",
        "percentage of runs in which some E(x) + P(t) is, in a recorded frame, shorter than an update by "
        "the learning rate on every axis, which is about what Adam takes; one is enough",
        experiment="vc.spikes",
        parts=(part(spikes.within_step_of_origin, Exists(), "runs within a step of the origin", "%"),),
        places="section 4.3",
        figure="vc12",
        meaning="no vector would come so near to the origin that its steps are too long",
    ),
    Claim(
        "VC.s4.3.too-long",
        "The gradient points where the loss falls, but a step that is too long raises it.",
        "percentage of spikes of whose rise less than half is left when the step is taken by half; were the "
        "loss to rise in a straight line, half would be left",
        experiment="vc.spikes",
        parts=(part(spikes.removed_by_half_step, Above(50), "gone with half the step", "%"),),
        places="section 4.3",
        figure="vc13",
        meaning="the direction of the step would be at fault, not its length",
    ),
    Claim(
        "VC.s4.3.flips",
        "The high curvature of the normalisation near the origin causes loss spikes: a step that is too long "
        "for a short vector turns its direction around.",
        f"{REPLAYED}: percentage of spikes of which sequences that are concerned by a flip (a normalised "
        "vector moves by more than its length and turns by more than a right angle) carry half or more of the rise",
        experiment="vc.spikes",
        parts=(FLIP,),
        readings=NORM_READINGS,
        places="section 4.3, figure 12, abstract, conclusion",
        figure="vc12",
        importance=3,
        meaning="in this model, as it is trained, steps are too short to flip anything, and the picture of figure 12 "
        "is not what makes its spikes",
    ),
    Claim(
        "VC.figure13.crossing",
        "Loss spikes come from sequence embeddings that lie close to decision boundaries of the feed-forward "
        "layer and change class.",
        f"{REPLAYED}: percentage of spikes of which sequences that were right at its foot and are wrong after "
        "the step carry half or more of the rise",
        experiment="vc.spikes",
        parts=(CROSSING,),
        readings=("in many spikes", "in the spike that is shown"),
        places="figure 13, section 4.3",
        figure="vc13",
        importance=3,
        meaning="spikes would not be misclassification",
    ),
    Claim(
        "VC.figure13.small-change",
        "In such a spike it is the sequence embeddings that move, by a little, from one update to the next.",
        "of the spikes with crossings: percentage in which embeddings have moved over a boundary that stays "
        "rather than a boundary over them; and the largest update of a sequence embedding in percent of its length, "
        "median over runs",
        experiment="vc.spikes",
        parts=(
            part(spikes.crossed_by_embedding, Above(50), "embeddings move", "%"),
            part(spikes.crossing_update, Below(25), "largest update, of the length", "%"),
        ),
        places="figure 13",
        figure="vc13",
        meaning="the change would be large, or that of the layer behind",
    ),
    Claim(
        "VC.figure14.assemblers",
        "Such spikes are due to assemblers that are heavy, or small but heavily correlated.",
        "before each spike with crossings, the percentage of the other runs that have escaped by then whose "
        "assemblers have a smaller largest singular value, which both weight and alignment make large; mean over runs",
        experiment="vc.spikes",
        parts=(part(spikes.mean_assembler_rank, Above(50, 5), "other runs with less", "%"),),
        readings=(
            "runs spike when their assemblers are heavier or more aligned than those of others at that time",
            "assemblers are heavy and aligned in all runs that have learned",
        ),
        places="figure 14, section 4.3",
        figure="vc14",
        importance=2,
        meaning="heavy or aligned assemblers would be found as much where there is no spike",
    ),
    Claim(
        "VC.s4.3.smoothing",
        "Smoothing the normalisation at the origin removes some of the loss spikes.",
        f"the same runs trained again with the smooth norm: difference in {RATE}, which does not count it "
        "for a remedy if fewer runs learn",
        experiment="vc.remedies",
        parts=(_spike_change_with_remedy(remedies.SMOOTH),),
        readings=(
            "training with the smooth norm has fewer spikes",
            "a given spike is gone with the smooth norm; see VC.s4.3.smoothing-a-step",
        ),
        places="section 4.3, abstract, section 1",
        importance=3,
        meaning="the proposed remedy would not help",
    ),
    Claim(
        "VC.s4.3.smoothing-a-step",
        "There are spikes that the smooth normalisation removes.",
        "percentage of spikes before which both norms classify 95% of the sequences alike, and of whose rise "
        "less than half is left when the same step is taken with the smooth norm; one is enough",
        experiment="vc.spikes",
        parts=(part(spikes.removed_by_smoothing, Exists(), "removed", "%"),),
        places="section 4.3",
        meaning="the smooth norm would have to work in other ways than on the step",
    ),
    Claim(
        "VC.s4.3.capacity",
        "A feed-forward layer with enough capacity has fewer spikes.",
        f"the same runs trained again with four times the width: difference in {RATE}",
        experiment="vc.remedies",
        parts=(_spike_change_with_remedy("h = 128"),),
        places="section 4.3",
        meaning="capacity, at this width, would be no remedy",
    ),
    Claim(
        "VC.s4.3.regularisation",
        "Regularisation of the feed-forward layer's weights reduces spikes.",
        f"the same runs trained again with decay of the assemblers of .01 and of .1: difference in {RATE}",
        experiment="vc.remedies",
        parts=tuple(_spike_change_with_remedy(f"decay {decay}") for decay in ("0.01", "0.1")),
        readings=("decay of the assemblers, whose weight is blamed", "other regularisation, of which none is named"),
        places="section 4.3",
        meaning="decay of the assemblers, in these amounts, would be no remedy",
    ),
    Claim(
        "VC.s4.3.edge-of-stability",
        "Steps that are too long for the normalisation are a case of what is called the edge of stability.",
        places="section 4.3",
        untestable="a likeness to a phenomenon of full-batch gradient descent, with no statement about this model that "
        "could fail",
    ),
    Claim(
        "VC.s4.3.larger-scale",
        "Such remedies can be validated at scale, steady the training of large networks, and let more be "
        "learned with the same compute.",
        places="section 4.3, section 1, abstract",
        untestable="about large networks, which neither the paper nor this package trains",
    ),
)

CH_CLAIMS = (
    Claim(
        "CH.figure4.feed-forward",
        "Loss spikes come from small changes of sequence embeddings near decision boundaries of the "
        "feed-forward layer.",
        f"{REPLAYED}: percentage of spikes that crossings of decision boundaries carry; the largest update of "
        "a sequence embedding in these, in percent of its length",
        experiment="vc.spikes",
        parts=(CROSSING, part(spikes.crossing_update, Below(25), "largest update, of the length", "%")),
        places="figure 4",
        figure="vc13",
        importance=2,
        meaning="spikes would not be misclassification, or not by a small change",
    ),
    Claim(
        "CH.figure5.normalisation",
        "Loss spikes come from the high curvature of the normalisation, where a small update of x changes "
        "x / |x| a lot.",
        f"{REPLAYED}: percentage of spikes in whose step normalised sequence embeddings turn by more than "
        f"{spikes.TURN:g} degrees, in the mean over sequences by what each has of the rise; and of those that flips of "
        "normalised vectors carry",
        experiment="vc.spikes",
        parts=(TURNED, FLIP),
        readings=CH_NORM_READINGS,
        places="figure 5, abstract",
        figure="vc12",
        importance=2,
        meaning="updates are too small against the vectors that are normalised to turn them far",
    ),
    Claim(
        "CH.abstract.spikes",
        "High curvature, of the feed-forward layer or of the normalisation, is what loss spikes are due to.",
        f"{REPLAYED}: percentage of spikes that flips or crossings carry half or more of; {BY_TURN}",
        experiment="vc.spikes",
        parts=OF_EITHER,
        readings=CH_NORM_READINGS,
        places="abstract, summary",
        figure="vc13",
        importance=2,
        meaning="much of the spiking would have other causes",
    ),
)

OWN_CLAIMS = (
    Claim(
        "OWN.smooth-norm",
        "The norm that is smooth at the origin removes spikes without costing accuracy.",
        f"the same runs trained again with the smooth norm: difference in {RATE}, and in final test accuracy",
        experiment="vc.remedies",
        parts=(
            _spike_change_with_remedy(remedies.SMOOTH),
            part(remedies.accuracy_change, Above(-5), "test accuracy", "points", remedy=remedies.SMOOTH),
        ),
        importance=2,
        meaning="the remedy is not shown to be free: runs may be calmer because they learn less",
    ),
    Claim(
        "OWN.flip",
        "No spike is carried by a flip of a normalised vector.",
        f"{REPLAYED}: percentage of spikes of which flips carry less than half of the rise, alone or with crossings",
        experiment="vc.spikes",
        parts=(part(spikes.spikes_without_flip, Every(), "without a flip", "%"),),
        figure="vc12",
        meaning="flips do occur, if rarely",
    ),
)

CLAIMS = (*VC_CLAIMS, *CH_CLAIMS, *OWN_CLAIMS)
