"""CA sections 5 and 7, figures 3, 4 and 6, appendices B and E: clustering, alignment, and what weight decay does."""

from functools import partial

from analysis.statements.networks import untested
from analysis.studies import classifier, forces, networks, weights
from analysis.verification.claim import Claim, Part
from analysis.verification.rules import Above, Below, Rule, Within

MOMENTS = (20, 100)
"""Epochs at which structures are forming; half of all networks have theirs by epoch 200 or so."""
DECAY = 1.0
"""Weight decay of the networks that the paper sets beside particles."""


def forming(measure, rule: Rule, unit: str = "", digits: int = 1, **more) -> tuple[Part, ...]:
    """A part for each epoch at which structures are forming."""
    return tuple(
        Part(partial(measure, decay=DECAY, epoch=each, **more), rule, f"epoch {each}", unit, digits) for each in MOMENTS
    )


AT_PAIR_SUMS = (
    "minus the gradient of the training loss at the pair sums themselves, shift and change of size aside, of networks "
    "with weight decay 1 at epochs 20 and 100, while structures form"
)

CLUSTERING = (
    Claim(
        name="CA.figure3.clusters",
        source="CA sections 2 and 5, figure 3, appendix E",
        statement="In networks that form grids the pair sums cluster by their modular sum.",
        measured="percentage of pair sums whose nearest other is of the same class, of the networks with weight decay "
        "0.6 that are not circles; beside it what it was at the start, and with tokens renamed",
        refuted="no more than half of the pair sums, or no more than at the start or by chance",
        study="ca.table1",
        parts=(
            Part(partial(networks.clustered, decay=0.6), Above(50), "nearest is of the same class", "%"),
            Part(partial(networks.clustered_beyond, decay=0.6, other="start_imperfections"), Above(0, 10),
                 "more than at the start", "points"),
            Part(partial(networks.clustered_beyond, decay=0.6, other="chance_imperfections"), Above(0, 10),
                 "more than by chance", "points"),
        ),
        covers=("section 2", "section 5", "section 5.1", "figure 3", "appendix E"),
        figure="ca3",
        weight=3,
        meaning="clustering, the first of the two tendencies, would not be what is seen",
    ),
    Claim(
        name="CA.s5.1.apart",
        source="CA section 5.1",
        statement="Two neighbouring pair sums of different classes are pushed apart by the gradient.",
        measured=f"share of neighbours, a pair sum and the one nearest to it, of different classes, that move apart by "
        f"{AT_PAIR_SUMS}",
        refuted="no more than half of them",
        study="ca.distance",
        parts=forming(forces.moved, Above(50), "%", kind="unlike"),
        readings=("of a pair sum and the one nearest to it, so that none lies between", "of any two pair sums"),
        covers=("section 5.1",),
        weight=2,
        meaning="decision boundaries would not repel what lies on their two sides",
    ),
    Claim(
        name="CA.s5.1.closer",
        source="CA section 5.1",
        statement="The closer two neighbouring pair sums of different classes are, the stronger the push.",
        measured=f"Spearman's correlation of the push apart and the distance, of the same neighbours by {AT_PAIR_SUMS}",
        refuted="a mean correlation that is not below 0, or that excludes -0.1",
        study="ca.distance",
        parts=forming(forces.by_distance, Below(0, 0.1), digits=2, kind="unlike_rank"),
        covers=("section 5.1",),
        meaning="the width of boundaries would not be what sets the strength of the push",
    ),
    Claim(
        name="CA.s5.1.inverse",
        source="CA section 5.1, equation 2",
        statement="The push between pair sums of different classes is inversely proportional to their distance.",
        measured=f"the power p of repulsions 1 / r^p, in steps of 0.25 from -0.75 to 4, that with the other three "
        f"fields explains most of {AT_PAIR_SUMS}; nearest to 1 is from 0.5 to 1.5",
        refuted="a power outside 0.5 to 1.5",
        study="ca.distance",
        parts=forming(forces.power, Within(0.5, 1.5), digits=2, kind="repulsion"),
        readings=(
            "the sum over all pair sums, as in the particle simulation",
            "between neighbours alone, with none in between",
        ),
        covers=("section 5.1", "section 6"),
        weight=2,
        meaning="another law of distance would describe real gradients better, whatever particles become by this one",
    ),
    Claim(
        name="CA.s5.1.together",
        source="CA section 5.1",
        statement="Two neighbouring pair sums of the same class are drawn together by the gradient.",
        measured=f"share of neighbours, a pair sum and the one nearest to it, of the same class, that move together by "
        f"{AT_PAIR_SUMS}",
        refuted="no more than half of them",
        study="ca.distance",
        parts=forming(forces.moved, Above(50), "%", kind="like"),
        readings=("of a pair sum and the one nearest to it, so that none lies between", "of any two pair sums"),
        covers=("section 5.1",),
        weight=2,
        meaning="attraction would not act between neighbours",
    ),
    Claim(
        name="CA.s5.1.constant",
        source="CA section 5.1, equation 3",
        statement="The pull between pair sums of the same class does not depend on their distance.",
        measured=f"the power q of attractions r^q, in steps of 0.25 from -2 to 3, that with the other three fields "
        f"explains most of {AT_PAIR_SUMS}, nearest to 0 being from -0.5 to 0.5; and Spearman's correlation of pull and "
        "distance of neighbours at epoch 100, before which too few are neighbours",
        refuted="a power outside -0.5 to 0.5, or a mean correlation beyond 0.1 either way",
        study="ca.distance",
        parts=(
            *forming(forces.power, Within(-0.5, 0.5), digits=2, kind="attraction"),
            Part(partial(forces.by_distance, decay=DECAY, epoch=100, kind="like_rank"), Within(-0.1, 0.1),
                 "correlation, epoch 100", digits=2),
        ),
        covers=("section 5.1",),
        weight=2,
        meaning="a pull that grows or falls with the distance would describe real gradients better",
    ),
    Claim(
        name="CA.s5.1.region",
        source="CA section 5.1",
        statement="Two neighbouring pair sums of the same class are likely to lie in one region of the classifier.",
        measured="share of such neighbours that the network takes for one class, at weight decay 1 and epochs 20 and "
        "100",
        refuted="no more than half of them",
        study="ca.distance",
        parts=forming(forces.one_region, Above(50), "%", kind="like"),
        covers=("section 5.1",),
        meaning="the attraction would have another cause than the centre of a common region",
    ),
    Claim(
        name="CA.s5.1.sigmoid",
        source="CA section 5.1",
        statement="The gradient is largest at the centre of a boundary between classes and falls with the distance "
        "from it.",
        measured="Spearman's correlation over a network's training pairs of the size of the push and of how far the "
        "right class's logit is from its strongest rival's, on either side of the boundary, at weight decay 1 and "
        "epochs 20 and 100",
        refuted="a mean correlation that is not below 0, or that excludes -0.1, on either side",
        study="ca.distance",
        parts=tuple(
            part._replace(label=f"{words}, {part.label}")
            for words, kind in (("right side", "right_side"), ("wrong side", "wrong_side"))
            for part in forming(forces.by_distance, Below(0, 0.1), digits=2, kind=kind)
        ),
        readings=("of the loss, by which embeddings are moved", "of the probability of the class"),
        covers=("section 5.1",),
        meaning="the argument for a pull of constant size would not hold as it is given: the gradient of a "
        "cross-entropy does not fade on the wrong side",
    ),
    Claim(
        name="CA.s5.1.signs",
        source="CA sections 2 and 5.1, equations 2 and 3",
        statement="The gradient acts as an attraction of pair sums of one class and a repulsion of those of different "
        "classes.",
        measured="mean weight of each of the two fields where all four are fitted to -dL/dE of networks with weight "
        "decay 1 at epochs 20 and 100, shift and change of size aside",
        refuted="a weight that is not above 0, or that excludes 0.1 of the gradient's size",
        study="ca.audit",
        parts=tuple(
            part._replace(label=f"{words}, {part.label}")
            for words, field in (("attraction", "like_attraction"), ("repulsion", "unlike_repulsion"))
            for part in forming(forces.pull, Above(0, 0.1), digits=2, field=field)
        ),
        covers=("section 2", "section 5.1"),
        weight=2,
        meaning="one of the two would not be at work in the network",
    ),
    Claim(
        name="CA.s5.1.fixed",
        source="CA section 5",
        statement="A first-order method moves each parameter as if all others stood still, so that classifier and "
        "embeddings evolve each to fit the other.",
        covers=("section 5",),
        untestable="the first half is what a gradient is, the second a way to look at it",
    ),
)  # fmt: skip

HALTED = (
    "its shape hardly changes in the second half of training, and less than with weight decay",
    "its updates become small against those at the beginning",
    "the structure stops where it is, whatever small moves go on",
)

DECAYING = (
    Claim(
        name="CA.s5.1.narrow",
        source="CA sections 5.1 and 7",
        statement="Without weight decay the boundaries between classes become very narrow; with it they are wide.",
        measured="slope across a pair sum of the right class's logit over its strongest rival's, of which a boundary's "
        "width is the inverse, per size of the pair sums; the median over training pairs without weight decay over "
        "that at weight decay 1, after 2000 epochs. Twice as narrow is taken for very narrow",
        refuted="a ratio that is not above 2",
        study="ca.classifier",
        parts=(Part(partial(classifier.times, name="relative_steepness"), Above(2), "slope, 0 over 1", "times"),),
        readings=("narrow against how far pair sums are apart", "narrow in absolute terms"),
        covers=("section 5.1", "section 7"),
        weight=2,
        meaning="what stops the embeddings without weight decay would not be how narrow boundaries are",
    ),
    Claim(
        name="CA.s5.1.nowhere",
        source="CA sections 5.1 and 7",
        statement="Without weight decay the force is strong in a narrow region and next to none elsewhere.",
        measured="participation ratio of the pushes on a network's training pair sums after 2000 epochs: the share of "
        "them that would carry all of it were they alike; without weight decay and at weight decay 1",
        refuted="no less than at weight decay 1, or more than a quarter",
        study="ca.classifier",
        parts=(
            Part(partial(classifier.apart, name="evenness"), Below(0, 0.05), "without less with", digits=2),
            Part(partial(classifier.average, name="evenness", decay=0.0), Below(0.25), "without", digits=2),
        ),
        covers=("section 5.1", "section 7"),
        meaning="the force would be as widely spread without weight decay as with it",
    ),
    Claim(
        name="CA.s5.1.halt",
        source="CA sections 5.1 and 7",
        statement="Without weight decay the embeddings come to a halt, stuck in a local minimum.",
        measured="Procrustes distance of the embedding at epoch 2000 from that at epoch 1000; less than 0.05 is a "
        "halt; and its ratio without weight decay to that at weight decay 1",
        refuted="0.05 or more, or no less than at weight decay 1",
        study="ca.halt",
        parts=(
            Part(partial(networks.still, name="second_half", decay=0.0), Below(0.05), "moved, without", digits=3),
            Part(partial(networks.less_without, name="second_half"), Below(1), "without over with", "times", 2),
        ),
        readings=HALTED,
        covers=("section 5.1", "section 7"),
        weight=2,
        meaning="that embeddings stop would not be why there are no circles and so many imperfections without it",
    ),
    Claim(
        name="CA.s5.1.slowing",
        source="CA section 5.1, read by the size of updates",
        statement="Without weight decay the updates of the embeddings die away, and more than with it.",
        measured="mean size of an update of the embedding in the last tenth of training over that in the first tenth; "
        "less than a tenth is dying away; and its size per size of the embedding, without weight decay over that at 1",
        refuted="a tenth or more, or no less than at weight decay 1",
        study="ca.halt",
        parts=(
            Part(partial(networks.still, name="slowing", decay=0.0), Below(0.1), "late over early, without", digits=3),
            Part(partial(networks.less_without, name="rate"), Below(1), "without over with", "times", 2),
        ),
        readings=HALTED[1:],
        covers=("section 5.1",),
        meaning="the halt would be one of structure, not of motion",
    ),
    Claim(
        name="CA.s7.overfit",
        source="CA sections 5.1 and 7",
        statement="Without weight decay the classifier overfits to the pair sums.",
        measured="training less validation accuracy after 2000 epochs, without weight decay, and that gap less the one "
        "at weight decay 1",
        refuted="a gap that is not above 10 points, or no more than at weight decay 1",
        study="ca.table1",
        parts=(
            Part(partial(networks.overfit, decay=0.0), Above(10), "gap without", "points"),
            Part(networks.overfit_more, Above(0, 5), "more than at weight decay 1", "points"),
        ),
        covers=("section 5.1", "section 7"),
        weight=2,
        meaning="networks without weight decay would fail for another reason",
    ),
    Claim(
        name="CA.figure6.limited",
        source="CA figure 6 and appendix B, sections 5.2 and 7",
        statement="Weight decay strongly limits the linear layer's weights and biases, and the output layer's weights.",
        measured="mean absolute value without weight decay over that at weight decay 1, after 2000 epochs; twice as "
        "large is taken for strongly",
        refuted="a ratio that is not above 2",
        study="ca.figure6",
        parts=(
            Part(partial(weights.limited, name="weight"), Above(2), "weights, 0 over 1", "times"),
            Part(partial(weights.limited, name="bias"), Above(2), "biases, 0 over 1", "times"),
            Part(partial(weights.limited, name="output_weight"), Above(2), "output weights, 0 over 1", "times"),
        ),
        readings=("the two ends of the figure", "a fall all along it, which the next claim tests"),
        covers=("figure 6", "appendix B", "section 5.1", "section 7"),
        figure="ca6",
        weight=2,
        meaning="weight decay would act on the embeddings by another way than the layers after them",
    ),
    Claim(
        name="CA.figure6.falls",
        source="CA figure 6",
        statement="The mean size of weights and of biases falls along the range of weight decays.",
        measured="Spearman's correlation of the mean absolute value with weight decay over eleven values",
        refuted="a correlation that is not below 0",
        study="ca.figure6",
        parts=(
            Part(partial(weights.falls, name="weight"), Below(0), "weights", digits=2),
            Part(partial(weights.falls, name="bias"), Below(0), "biases", digits=2),
        ),
        covers=("figure 6", "appendix B"),
        figure="ca6",
        meaning="the figure would look different",
    ),
    Claim(
        name="CA.figure6.biases",
        source="CA appendix B",
        statement="Weight decay limits the biases of the linear layer more than its weights.",
        measured="the ratio of the biases without weight decay to those at 1, over the same ratio of the weights",
        refuted="a ratio that is not above 1",
        study="ca.figure6",
        parts=(Part(weights.biases_more, Above(1, 0.1), "biases over weights", "times", 2),),
        covers=("figure 6", "appendix B"),
        figure="ca6",
        meaning="what makes alignment possible would not be that biases are small",
    ),
    Claim(
        name="CA.s7.origin",
        source="CA sections 5.2 and 7",
        statement="Weight decay keeps the places where hidden units begin to be active very close to the origin; "
        "without it they may lie anywhere.",
        measured="mean distance of units' boundaries from the origin over the size of the pair sums, after 2000 "
        "epochs; less than a quarter is taken for very close; and how much further it is without weight decay",
        refuted="a quarter or more at weight decay 1, or no further without",
        study="ca.classifier",
        parts=(
            Part(partial(classifier.average, name="relative_offset", decay=1.0), Below(0.25), "at weight decay 1",
                 digits=2),
            Part(partial(classifier.apart, name="relative_offset"), Above(0, 0.1), "without less with", digits=2),
        ),
        readings=("close against the size of the pair sums", "close in absolute terms, which the next claim tests"),
        covers=("section 5.2", "section 7"),
        weight=2,
        meaning="there would be no point around which alignment could take place",
    ),
    Claim(
        name="CA.s7.origin-absolute",
        source="CA sections 5.2 and 7, read in absolute terms",
        statement="Without weight decay the places where hidden units begin to be active lie further from the origin.",
        measured="mean distance of units' boundaries from the origin without weight decay over that at weight decay 1",
        refuted="a ratio that is not above 1, or that excludes 1.1",
        study="ca.classifier",
        parts=(Part(partial(classifier.times, name="offset"), Above(1, 0.1), "0 over 1", "times", 2),),
        readings=("in absolute terms", "against the size of the pair sums, which the claim before tests"),
        covers=("section 5.2", "section 7"),
        meaning="larger biases would go with weights that are as much larger",
    ),
    Claim(
        name="CA.s7.generalises",
        source="CA sections 4 and 7",
        statement="Weight decay is important for the trained network to generalise.",
        measured="validation accuracy at weight decay 1 less that without, of equal seeds, and its trend over the four",
        refuted="no higher accuracy, or a difference that excludes 10 points",
        study="ca.table1",
        parts=(
            Part(networks.more_accurate, Above(0, 10), "weight decay 1 less 0", "points"),
            Part(partial(networks.trend, name="accuracy"), Above(0), "rank correlation with weight decay", digits=2),
        ),
        covers=("section 4", "section 7"),
        weight=2,
        meaning="the role of weight decay in what follows would not matter for generalisation",
    ),
    Claim(
        name="CA.s7.forces",
        source="CA section 7",
        statement="Weight decay strengthens the clustering force and brings in the force of alignment.",
        measured="weights of the fields in the fit to -dL/dE at weight decay 1 less those without, at epoch 100 and at "
        "the end: attraction, repulsion, and both kinds of alignment",
        refuted="a difference that is not above 0, or that excludes 0.1 of the gradient's size",
        study="ca.audit",
        parts=tuple(
            Part(partial(forces.pull_by_decay, field=field, epoch=epoch), Above(0, 0.1), f"{words}, epoch {epoch}",
                 digits=2)
            for words, field in (("attraction", "like_attraction"), ("repulsion", "unlike_repulsion"),
                                 ("like alignment", "like_alignment"), ("unlike alignment", "unlike_alignment"))
            for epoch in (100, 2000)
        ),
        readings=("by the share of each field in the true gradient", "by the size of the forces themselves"),
        covers=("section 7",),
        weight=2,
        meaning="that weight decay brings circles and grids would not be because it brings these forces",
    ),
    untested("CA.s7.link", "CA section 7", "That regularising one layer makes room for the training of another had not "
             "been reported, may explain why weight decay works in deep networks, and may hold elsewhere.",
             "novelty, and other networks", "section 7"),
    untested("CA.s7.traditional", "CA sections 2, 3 and 7", "Weight decay was first seen as a penalty on large "
             "weights, later as a change of the dynamics; it shrinks each parameter at every step.",
             "about other papers, and a definition", "section 7"),
)  # fmt: skip

ALIGNMENT = (
    Claim(
        name="CA.figure4.rays",
        source="CA section 5.2 and figure 4",
        statement="In circles the pair sums of a class are aligned on a line through the origin.",
        measured="share of the pair sums' squared length along their own class's line, in the circles of table 1's "
        "networks; more than 0.95 is taken for aligned. By chance, with tokens renamed, it is about 0.68",
        refuted="0.95 or less, or no more than in the other networks",
        study="ca.alignment",
        parts=(
            Part(partial(weights.in_circles, name="rays"), Above(0.95), "circles", digits=3),
            Part(partial(networks.circles_less_others, name="rays"), Above(0, 0.02), "less the others", digits=3),
        ),
        covers=("section 5.2", "figure 4"),
        figure="ca4",
        weight=3,
        meaning="alignment, the second of the two tendencies, would not be what is seen",
    ),
    Claim(
        name="CA.figure4.no-clusters",
        source="CA section 5.2",
        statement="In circles the pair sums are no longer clustered by their modular sum.",
        measured="percentage of pair sums whose nearest other is of the same class, in circles less in the other "
        "networks at the weight decays that have circles",
        refuted="no lower than in the others, or a difference that excludes 20 points",
        study="ca.table1",
        parts=(Part(networks.clustered_by_kind, Below(0, 20), "circles less others", "points"),),
        covers=("section 5.2", "figure 4"),
        figure="ca4",
        meaning="circles would be clusters as well",
    ),
    Claim(
        name="CA.figure4.pizza",
        source="CA section 5.2 and figure 4",
        statement="In circles the regions of the classes begin at the origin, like the slices of a pizza.",
        measured="share of points at a quarter, a half and three quarters of the largest pair sum's length that are of "
        "the class further out in the same direction; in circles, and less in the others at the same weight decays",
        refuted="no more than half of the points, or no more than in the other networks",
        study="ca.classifier",
        parts=(
            Part(partial(networks.in_circles, name="slices", unit=100), Above(50), "circles", "%"),
            Part(partial(networks.circles_less_others, name="slices", unit=100), Above(0, 5), "less others", "points"),
        ),
        covers=("section 5.2", "figure 4"),
        figure="ca4",
        weight=2,
        meaning="circles would be classified by something else than direction",
    ),
    Claim(
        name="CA.s5.2.exactly",
        source="CA section 5.2",
        statement="A circle is exactly the pizza algorithm that was found in other networks.",
        measured="Pearson's r of a pair sum's length and the right class's logit, in circles: the pizza is surer of "
        "longer pair sums, where a clock would not care; 0.5 is taken for a mark of the pizza",
        refuted="a correlation that is not above 0.5",
        study="ca.classifier",
        parts=(Part(partial(networks.in_circles, name="longer"), Above(0.5), "circles", digits=2),),
        readings=("the mark by which the pizza is told from the clock", "equality of the two networks' weights"),
        covers=("section 5.2",),
        meaning="it would not be the pizza algorithm, or not exactly",
    ),
    Claim(
        name="CA.s5.2.weights-align",
        source="CA section 5.2",
        statement="The hidden weights tend to align with the pair sums.",
        measured="rank of each unit's nearness in direction to a pair sum among random directions, 0.5 by chance, in "
        "the circles of table 1's networks, units counted by the norm of their weights",
        refuted="a mean rank that is not above 0.5",
        study="ca.alignment",
        parts=(Part(partial(weights.in_circles, name="alignment"), Above(0.5, 0.05), "circles", digits=2),),
        readings=("nearer to a pair sum than random directions are", "in the same half-plane as a pair sum"),
        covers=("section 5.2",),
        figure="ca4",
        weight=3,
        meaning="the step from weight decay to the alignment force would not be what happens in the network; for odd N "
        "a weight whose boundary lies on one line of pair sums points between two others",
    ),
    Claim(
        name="CA.s5.2.useful",
        source="CA section 5.2",
        statement="A weight vector that is aligned with a pair sum is of most use to the classifier, as it gives that "
        "pair sum the largest output and the others the smallest.",
        covers=("section 5.2",),
        untestable="an argument, of which the first half holds for any vector of given length, and the second cannot "
        "hold of pair sums that lie close by; whether weights do align is another claim",
    ),
    Claim(
        name="CA.s5.2.field",
        source="CA section 5.2, equation 4",
        statement="The gradient draws a pair sum along those of its class in its half-plane, and against those of the "
        "other classes.",
        measured="mean weight of both fields of alignment where all four are fitted to -dL/dE of networks with weight "
        "decay 1 at epochs 20 and 100, shift and change of size aside",
        refuted="a weight that is not above 0, or that excludes 0.1 of the gradient's size",
        study="ca.audit",
        parts=tuple(
            part._replace(label=f"{words}, {part.label}")
            for words, field in (("like", "like_alignment"), ("unlike", "unlike_alignment"))
            for part in forming(forces.pull, Above(0, 0.1), digits=2, field=field)
        ),
        covers=("section 2", "section 5.2"),
        weight=2,
        meaning="alignment as its formula has it would not be at work in the network",
    ),
)  # fmt: skip

CLAIMS = (*CLUSTERING, *ALIGNMENT, *DECAYING)
