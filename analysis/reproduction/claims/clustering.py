"""CA sections 5 and 5.1, figure 3, appendix E: clustering, and the laws of its two forces."""

from analysis.reproduction.experiments import audit, classifier, distance
from analysis.reproduction.musat2024 import networks
from analysis.reproduction.verification.claim import Claim, Measurement, part
from analysis.reproduction.verification.criteria import Above, Below, Criterion, Within

MOMENTS = (20, 100)
"""Epochs at which structures are forming; half of all networks have theirs by epoch 200 or so."""
DECAY = 1.0
"""Weight decay of the networks that the paper sets beside particles."""


def forming_parts(measure, rule: Criterion, unit: str = "", digits: int = 1, **more) -> tuple[Measurement, ...]:
    """A part for each epoch at which structures are forming."""
    return tuple(
        part(measure, rule, f"epoch {each}", unit, digits=digits, decay=DECAY, epoch=each, **more) for each in MOMENTS
    )


AT_PAIR_SUMS = (
    "minus the gradient of the training loss at the pair sums themselves, shift and change of size aside, of networks "
    "with weight decay 1 at epochs 20 and 100, while structures form"
)

CLAIMS = (
    Claim(
        "CA.figure3.clusters",
        "In networks that form grids the pair sums cluster by their modular sum.",
        "percentage of pair sums whose nearest other is of the same class, of the networks with weight decay "
        "0.6 that are not circles; beside it what it was at the start, and with tokens renamed",
        experiment="ca.table1",
        parts=(
            part(networks.clustered_sums, Above(50), "nearest is of the same class", "%", decay=0.6),
            *(
                part(networks.clustered_excess, Above(0, 10), f"more than {label}", "points", decay=0.6, other=other)
                for label, other in (("at the start", "start_imperfections"), ("by chance", "chance_imperfections"))
            ),
        ),
        places="section 2, section 5, section 5.1, figure 3, appendix E",
        figure="ca3",
        importance=3,
        meaning="clustering, the first of the two tendencies, would not be what is seen",
    ),
    Claim(
        "CA.s5.classified",
        "That pair sums cluster by their modular sum is what lets the network classify them.",
        "training accuracy of the pair sums whose nearest other one is of the same class, less that of the "
        "others, within networks with weight decay 0.6 that are not circles and have both",
        experiment="ca.classifier",
        parts=(part(classifier.clustered_accuracy_gain, Above(0, 5), "clustered less others", "points", decay=0.6),),
        readings=(
            "pair sums that are clustered are classified right more often than others of the same network",
            "networks with more clusters generalise better, which CA.table1.correlated tests",
        ),
        places="section 5",
        figure="ca3",
        importance=2,
        meaning="networks would classify pair sums wherever they lie, and clusters would not be what they need",
    ),
    Claim(
        "CA.s5.1.apart",
        "Two neighbouring pair sums of different classes are pushed apart by the gradient.",
        f"share of neighbours, a pair sum and the one nearest to it, of different classes, that move apart by "
        f"{AT_PAIR_SUMS}",
        experiment="ca.distance",
        parts=forming_parts(distance.moved_neighbours, Above(50), "%", kind="unlike"),
        readings=("of a pair sum and the one nearest to it, so that none lies between", "of any two pair sums"),
        places="section 5.1",
        importance=2,
        meaning="decision boundaries would not repel what lies on their two sides",
    ),
    Claim(
        "CA.s5.1.closer",
        "The closer two neighbouring pair sums of different classes are, the stronger the push.",
        f"Spearman's correlation of the push apart and the distance, of the same neighbours by {AT_PAIR_SUMS}",
        experiment="ca.distance",
        parts=forming_parts(distance.distance_correlation, Below(0, 0.1), digits=2, kind="unlike_rank"),
        places="section 5.1",
        meaning="the width of boundaries would not be what sets the strength of the push",
    ),
    Claim(
        "CA.s5.1.inverse",
        "The push between pair sums of different classes is inversely proportional to their distance.",
        f"the power p of repulsions 1 / r^p, in steps of 0.25 from -0.75 to 4, that with the other three "
        f"fields explains most of {AT_PAIR_SUMS}; nearest to 1 is from 0.5 to 1.5",
        experiment="ca.distance",
        parts=forming_parts(distance.best_power, Within(0.5, 1.5), digits=2, kind="repulsion"),
        readings=(
            "the sum over all pair sums, as in the particle simulation",
            "between neighbours alone, with none in between",
        ),
        places="section 5.1, section 6",
        importance=2,
        meaning="another law of distance would describe real gradients better, whatever particles become by this one",
    ),
    Claim(
        "CA.s5.1.together",
        "Two neighbouring pair sums of the same class are drawn together by the gradient.",
        f"share of neighbours, a pair sum and the one nearest to it, of the same class, that move together by "
        f"{AT_PAIR_SUMS}",
        experiment="ca.distance",
        parts=forming_parts(distance.moved_neighbours, Above(50), "%", kind="like"),
        readings=("of a pair sum and the one nearest to it, so that none lies between", "of any two pair sums"),
        places="section 5.1",
        importance=2,
        meaning="attraction would not act between neighbours",
    ),
    Claim(
        "CA.s5.1.constant",
        "The pull between pair sums of the same class does not depend on their distance.",
        f"the power q of attractions r^q, in steps of 0.25 from -2 to 3, that with the other three fields "
        f"explains most of {AT_PAIR_SUMS}, nearest to 0 being from -0.5 to 0.5; and Spearman's correlation of pull and "
        "distance of neighbours at epoch 100, before which too few are neighbours",
        experiment="ca.distance",
        parts=(
            *forming_parts(distance.best_power, Within(-0.5, 0.5), digits=2, kind="attraction"),
            forming_parts(distance.distance_correlation, Within(-0.1, 0.1), digits=2, kind="like_rank")[-1]._replace(
                label="correlation, epoch 100"
            ),
        ),
        places="section 5.1",
        importance=2,
        meaning="a pull that grows or falls with the distance would describe real gradients better",
    ),
    Claim(
        "CA.s5.1.region",
        "Two neighbouring pair sums of the same class are likely to lie in one region of the classifier.",
        "share of such neighbours that the network takes for one class, at weight decay 1 and epochs 20 and 100",
        experiment="ca.distance",
        parts=forming_parts(distance.same_region_neighbours, Above(50), "%"),
        places="section 5.1",
        meaning="the attraction would have another cause than the centre of a common region",
    ),
    Claim(
        "CA.s5.1.sigmoid",
        "The gradient is largest at the centre of a boundary between classes and falls with the distance from it.",
        "Spearman's correlation over a network's training pairs of the size of the push and of how far the "
        "right class's logit is from its strongest rival's, on either side of the boundary, at weight decay 1 and "
        "epochs 20 and 100",
        experiment="ca.distance",
        parts=tuple(
            one._replace(label=f"{words}, {one.label}")
            for words, kind in (("right side", "right_side"), ("wrong side", "wrong_side"))
            for one in forming_parts(distance.distance_correlation, Below(0, 0.1), digits=2, kind=kind)
        ),
        readings=("of the loss, by which embeddings are moved", "of the probability of the class"),
        places="section 5.1",
        meaning="the argument for a pull of constant size would not hold as it is given: the gradient of a "
        "cross-entropy does not fade on the wrong side",
    ),
    Claim(
        "CA.s5.1.signs",
        "The gradient acts as an attraction of pair sums of one class and a repulsion of those of different classes.",
        "mean weight of each of the two fields where all four are fitted to -dL/dE of networks with weight "
        "decay 1 at epochs 20 and 100, shift and change of size aside",
        experiment="ca.audit",
        parts=tuple(
            one._replace(label=f"{words}, {one.label}")
            for words, field in (("attraction", "like_attraction"), ("repulsion", "unlike_repulsion"))
            for one in forming_parts(audit.field_weight, Above(0, 0.1), digits=2, field=field)
        ),
        places="section 2, section 5.1",
        importance=2,
        meaning="one of the two would not be at work in the network",
    ),
    Claim(
        "CA.s5.1.fixed",
        "A first-order method moves each parameter as if all others stood still, so that classifier and "
        "embeddings evolve each to fit the other.",
        places="section 5",
        untestable="the first half is what a gradient is, the second a way to look at it",
    ),
)
