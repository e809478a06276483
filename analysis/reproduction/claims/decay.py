"""CA sections 5.1 and 7, figure 6, appendix B: what weight decay does."""

from analysis.reproduction.experiments import audit, classifier, late_movement, weights
from analysis.reproduction.musat2024 import networks
from analysis.reproduction.verification.claim import Claim, part
from analysis.reproduction.verification.criteria import Above, Below

HALTED = (
    "its shape hardly changes in the second half of training, and less than with weight decay",
    "its updates become small against those at the beginning",
    "the structure stops where it is, whatever small moves go on",
)
OFFSET = "relative_offset"
FIELDS = {
    "attraction": "like_attraction",
    "repulsion": "unlike_repulsion",
    "like alignment": "like_alignment",
    "unlike alignment": "unlike_alignment",
}

CLAIMS = (
    Claim(
        "CA.s5.1.narrow",
        "Without weight decay the boundaries between classes become very narrow; with it they are wide.",
        "slope across a pair sum of the right class's logit over its strongest rival's, of which a boundary's "
        "width is the inverse, per size of the pair sums; the median over training pairs without weight decay over "
        "that at weight decay 1, at the end of training. Twice as narrow is taken for very narrow",
        experiment="ca.classifier",
        parts=(part(classifier.ratio_without_decay, Above(2), "slope, 0 over 1", "times", name="relative_steepness"),),
        readings=("narrow against how far pair sums are apart", "narrow in absolute terms"),
        places="section 5.1, section 7",
        importance=2,
        meaning="what stops the embeddings without weight decay would not be how narrow boundaries are",
    ),
    Claim(
        "CA.s5.1.nowhere",
        "Without weight decay the force is strong in a narrow region and next to none elsewhere.",
        "participation ratio of the pushes on a network's training pair sums at the end of training: the "
        "share of them that would carry all of it were they alike; without weight decay and at weight decay 1",
        experiment="ca.classifier",
        parts=(
            part(classifier.difference_without_decay, Below(0, 0.05), "without less with", digits=2, name="evenness"),
            part(classifier.classifier_mean, Below(0.25), "without", digits=2, name="evenness", decay=0.0),
        ),
        places="section 5.1, section 7",
        meaning="the force would be as widely spread without weight decay as with it",
    ),
    Claim(
        "CA.s5.1.halt",
        "Without weight decay the embeddings come to a halt, stuck in a local minimum.",
        "Procrustes distance of the embedding at the end from that half-way through training; less than 0.05 "
        "is a halt; and its ratio without weight decay to that at weight decay 1",
        experiment="ca.halt",
        parts=(
            part(late_movement.mean_movement, Below(0.05), "moved, without", digits=3, name="second_half", decay=0.0),
            part(late_movement.movement_ratio, Below(1), "without over with", "times", digits=2, name="second_half"),
        ),
        readings=HALTED,
        places="section 5.1, section 7",
        importance=2,
        meaning="that embeddings stop would not be why there are no circles and so many imperfections without it",
    ),
    Claim(
        "CA.s5.1.slowing",
        "Without weight decay the updates of the embeddings die away, and more than with it.",
        "mean size of an update of the embedding in the last tenth of training over that in the first tenth; "
        "less than a tenth is dying away; and its size per size of the embedding, without weight decay over that at 1",
        experiment="ca.halt",
        parts=(
            part(
                late_movement.mean_movement, Below(0.1), "late over early, without", digits=3, name="slowing", decay=0.0
            ),
            part(late_movement.movement_ratio, Below(1), "without over with", "times", digits=2, name="rate"),
        ),
        readings=HALTED[1:],
        places="section 5.1",
        meaning="the halt would be one of structure, not of motion",
    ),
    Claim(
        "CA.s7.overfit",
        "Without weight decay the classifier overfits to the pair sums.",
        "training less validation accuracy at the end, without weight decay, and that gap less the one at "
        "weight decay 1",
        experiment="ca.table1",
        parts=(
            part(networks.overfitting_gap, Above(10), "gap without", "points", decay=0.0),
            part(networks.overfitting_gap_change, Above(0, 5), "more than at weight decay 1", "points"),
        ),
        places="section 5.1, section 7",
        importance=2,
        meaning="networks without weight decay would fail for another reason",
    ),
    Claim(
        "CA.figure6.limited",
        "Weight decay strongly limits the linear layer's weights and biases.",
        "mean absolute value without weight decay over that at weight decay 1, at the end of training; twice "
        "as large is taken for strongly",
        experiment="ca.figure6",
        parts=(
            part(weights.weight_size_ratio, Above(2), "weights, 0 over 1", "times", name="weight"),
            part(weights.weight_size_ratio, Above(2), "biases, 0 over 1", "times", name="bias"),
        ),
        readings=("the two ends of the figure", "a fall all along it, which the next claim tests"),
        places="figure 6, appendix B, section 5.2, section 7",
        figure="ca6",
        importance=2,
        meaning="weight decay would act on the embeddings by another way than the linear layer",
    ),
    Claim(
        "CA.s7.output",
        "Weight decay limits the weights of the output layer as well.",
        "their mean absolute value without weight decay over that at weight decay 1, at the end of training",
        experiment="ca.figure6",
        parts=(part(weights.weight_size_ratio, Above(1, 0.1), "0 over 1", "times", digits=2, name="output_weight"),),
        places="section 7",
        meaning="wide boundaries would come from the linear layer alone",
    ),
    Claim(
        "CA.figure6.falls",
        "The mean size of weights and of biases falls along the range of weight decays.",
        "Spearman's correlation of the mean absolute value with weight decay over eleven values",
        experiment="ca.figure6",
        parts=(
            part(weights.size_decay_correlation, Below(0), "weights", digits=2, name="weight"),
            part(weights.size_decay_correlation, Below(0), "biases", digits=2, name="bias"),
        ),
        places="figure 6, appendix B",
        figure="ca6",
        meaning="the figure would look different",
    ),
    Claim(
        "CA.figure6.biases",
        "Weight decay limits the biases of the linear layer more than its weights.",
        "the ratio of the biases without weight decay to those at 1, over the same ratio of the weights",
        experiment="ca.figure6",
        parts=(part(weights.bias_to_weight_ratio, Above(1, 0.1), "biases over weights", "times", digits=2),),
        places="figure 6, appendix B",
        figure="ca6",
        meaning="what makes alignment possible would not be that biases are small",
    ),
    Claim(
        "CA.s7.origin",
        "Weight decay keeps the places where hidden units begin to be active very close to the origin; "
        "without it they may lie anywhere.",
        "mean distance of units' boundaries from the origin over the size of the pair sums, at the end of "
        "training; less than a quarter is taken for very close; and how much further it is without weight decay",
        experiment="ca.classifier",
        parts=(
            part(classifier.classifier_mean, Below(0.25), "at weight decay 1", digits=2, name=OFFSET, decay=1.0),
            part(classifier.difference_without_decay, Above(0, 0.1), "without less with", digits=2, name=OFFSET),
        ),
        readings=("close against the size of the pair sums", "close in absolute terms, which the next claim tests"),
        places="section 5.2, section 7",
        importance=2,
        meaning="there would be no point around which alignment could take place",
    ),
    Claim(
        "CA.s7.origin-absolute",
        "Without weight decay the places where hidden units begin to be active lie further from the origin.",
        "mean distance of units' boundaries from the origin without weight decay over that at weight decay 1",
        experiment="ca.classifier",
        parts=(part(classifier.ratio_without_decay, Above(1, 0.1), "0 over 1", "times", digits=2, name="offset"),),
        readings=("in absolute terms", "against the size of the pair sums, which the claim before tests"),
        places="section 5.2, section 7",
        meaning="larger biases would go with weights that are as much larger",
    ),
    Claim(
        "CA.s7.generalises",
        "Weight decay is important for the trained network to generalise.",
        "validation accuracy at weight decay 1 less that without, of equal seeds, and its trend over the four",
        experiment="ca.table1",
        parts=(
            part(networks.network_accuracy_change, Above(0, 10), "weight decay 1 less 0", "points"),
            networks.trend_part(Above(0), "accuracy"),
        ),
        places="section 4, section 7",
        importance=2,
        meaning="the role of weight decay in what follows would not matter for generalisation",
    ),
    Claim(
        "CA.s7.forces",
        "Weight decay strengthens the clustering force and brings in the force of alignment.",
        "weights of the fields in the fit to -dL/dE at weight decay 1 less those without, at epoch 100 and at "
        "the end: attraction, repulsion, and both kinds of alignment",
        experiment="ca.audit",
        parts=tuple(
            part(audit.field_weight_change, Above(0, 0.1), f"{words}, epoch {at}", digits=2, field=field, epoch=at)
            for words, field in FIELDS.items()
            for at in (100, 2000)
        ),
        readings=("by the share of each field in the true gradient", "by the size of the forces themselves"),
        places="section 7",
        importance=2,
        meaning="that weight decay brings circles and grids would not be because it brings these forces",
    ),
    Claim(
        "CA.s7.link",
        "That regularising one layer makes room for the training of another had not "
        "been reported, may explain why weight decay works in deep networks, and may hold elsewhere.",
        untestable="novelty, and other networks",
        places="section 7",
    ),
    Claim(
        "CA.s7.traditional",
        "Weight decay was first seen as a penalty on large "
        "weights, later as a change of the dynamics; it shrinks each parameter at every step.",
        untestable="about other papers, and a definition",
        places="section 7",
    ),
)
