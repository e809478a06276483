"""VC section 4.1, figure 5, and the conclusion: drops of the loss, two phases, escapes."""

from analysis.clustering_heads.learning_phases import SEQUENCE_EMBEDDING_WEIGHTS
from analysis.reproduction.experiments import phases
from analysis.reproduction.verification.claim import Claim, Measurement, part
from analysis.reproduction.verification.criteria import Above, Below, Exists, Within

RUNS = "over those runs of the default recipe that end above .98"
WORK = (
    "the share of the drop's fall that the movement of some layers makes, their gradient integrated along the recorded "
    f"path, medians {RUNS}"
)
CLUSTERED = (
    "percentage of the way that sequence embeddings have come from their first state to their final clusters, by the "
    "share of their variance between these"
)
BEHIND = (*phases.BACK, "transform_bias")
LAYERS = (*SEQUENCE_EMBEDDING_WEIGHTS, "receptor", "receptor_bias", "assembler")


def _layer_speed_measurement(layer: str) -> Measurement:
    """A layer that is faster in the first drop than before."""
    return part(phases.layer_speed_up, Above(1, 0.5), layer.replace("_", " "), layer=layer)


CLAIMS = (
    Claim(
        "VC.s4.1.drops",
        "Loss curves typically have drops.",
        "percentage of runs of the default recipe with a drop of the training loss that is not its first "
        "descent, and of successful ones with two (`analysis.transitions.change_points`)",
        experiment="vc.phases",
        parts=(
            part(phases.runs_with_drops, Above(50), "all runs, one or more", "%", least=1),
            part(phases.runs_with_drops, Above(50), "successful runs, two or more", "%", least=2, of_all=False),
        ),
        places="section 4.1",
        figure="vc5",
        importance=2,
        meaning="losses would fall smoothly, or not at all",
    ),
    Claim(
        "VC.s4.1.hierarchical",
        "Drops are the learning of different parts of the network, from the first layers to the last.",
        "percentage of successful runs whose final clusters of sequence embeddings form before training "
        "accuracy comes half-way; and of those whose first layers come half-way to their end before the feed-forward "
        "layer does; runs that do both in one of the frames that are looked at are left out",
        experiment="vc.phases",
        parts=(
            part(phases.clusters_before_accuracy, Above(50), "clusters before classes", "%"),
            part(phases.front_first, Above(50), "weights, first layers before last", "%"),
        ),
        readings=(
            "what the first layers make is there before what the last ones make of it, and their weights settle first",
            "the outputs are ordered, whatever the weights do",
        ),
        places="section 4.1, conclusion",
        figure="vc5",
        importance=3,
        meaning="parts of the network are learned together, or the last ones first",
    ),
    Claim(
        "VC.s4.1.first-drop",
        "The first drop is the learning of the sequence embeddings.",
        "percentage of successful runs whose final clusters form within a window (20 epochs) of the first "
        f"drop; {WORK}",
        experiment="vc.phases",
        parts=(
            part(phases.clusters_in_first_drop, Above(50), "clusters form with it", "%"),
            part(
                phases.loss_fall_by_layers,
                Above(50),
                "share of the first layers",
                "%",
                layers=SEQUENCE_EMBEDDING_WEIGHTS,
                phase="first",
            ),
        ),
        readings=("it coincides with it, and is caused by it", "it coincides with it"),
        places="section 4.1, figure 5",
        figure="vc5",
        importance=3,
        meaning="in the first drop the feed-forward layer is learned as well, and as much",
    ),
    Claim(
        "VC.s4.1.phase-change",
        "The first drop is a change of phase of the weights, which all move rapidly then.",
        f"how many times as fast each layer moves in the first drop as before it, medians {RUNS}",
        experiment="vc.phases",
        parts=(
            part(phases.total_speed_up, Above(1, 0.5), "all weights together"),
            *map(_layer_speed_measurement, LAYERS),
        ),
        readings=("every layer speeds up", "the weights as a whole do"),
        places="section 4.1",
        figure="vc5",
        importance=2,
        meaning="weights would move in the drop as they did before",
    ),
    Claim(
        "VC.s4.1.wander",
        "Before it, weights wander as if trapped in a saddle, waiting for a signal.",
        "distance over length of path of all weights in the first drop, less that over stretches as long "
        f"before it, mean {RUNS}",
        experiment="vc.phases",
        parts=(part(phases.straightness_gain, Above(0, 0.05), "straighter in the drop", digits=2),),
        readings=(
            "paths are less straight before the drop than in it",
            "gradients are small; see VC.appA.1.plateau-saddle",
        ),
        places="section 4.1",
        meaning="weights would move as straight before the drop as in it",
    ),
    Claim(
        "VC.s4.1.definitive",
        "The first drop leaves the sequence embeddings with a relatively definitive structure.",
        f"at the end of the first drop, {CLUSTERED}, mean {RUNS}",
        experiment="vc.phases",
        parts=(part(phases.clustering_progress, Above(50), "way to final clusters", "%", moment="first_end"),),
        places="section 4.1, figure 5",
        figure="vc5",
        meaning="the structure would still change afterwards",
    ),
    Claim(
        "VC.s4.1.escape-spread",
        "The time until the first drop differs a lot from run to run.",
        "percentage of runs that take more than twice, or less than half, as long as the median run until the "
        "loss has lost a tenth of its first level, those that never do counting as longer",
        experiment="vc.phases",
        parts=(part(phases.escape_spread, Above(10), "apart by a factor of 2", "%"),),
        readings=("over first weights", "over hyperparameters; see VC.s4.1.time-varies"),
        places="section 4.1, conclusion",
        meaning="runs would escape at much the same time",
    ),
    Claim(
        "VC.s4.1.second-drop",
        "The second drop is the learning of the feed-forward layer.",
        WORK,
        experiment="vc.phases",
        parts=(
            part(phases.loss_fall_by_layers, Above(50), "share of the last layers", "%", layers=BEHIND, phase="second"),
        ),
        places="section 4.1, figure 5",
        figure="vc5",
        importance=3,
        meaning="in the second drop the sequence embeddings still change, and as much depends on it",
    ),
    Claim(
        "VC.s4.1.no-second-change",
        "In the second drop there is no change of phase: feed-forward weights go on at the same speed.",
        "how many times as fast receptors, their biases and assemblers move in the second drop as between the "
        f"two, medians {RUNS}",
        experiment="vc.phases",
        parts=tuple(
            part(phases.layer_speed_up, Within(0.5, 2), layer.replace("_", " "), layer=layer, phase="second")
            for layer in phases.BACK
        ),
        places="section 4.1",
        figure="vc5",
        importance=2,
        meaning="the second drop would be a change of phase like the first",
    ),
    Claim(
        "VC.s4.1.frontiers",
        "In the second drop decision frontiers change relatively strongly nevertheless.",
        "percentage of sequences that the feed-forward layer after the drop classifies otherwise than that "
        f"before it, at unchanged sequence embeddings, mean {RUNS}",
        experiment="vc.phases",
        parts=(part(phases.reclassified_sequences, Above(10), "classified otherwise", "%"),),
        places="section 4.1",
        figure="vc5",
        meaning="frontiers would hardly move",
    ),
    Claim(
        "VC.s4.1.soon",
        "The second drop comes soon after the first, or with it.",
        "epochs from the first drop's end to the second's begin, median over the successful runs that have "
        "both (those with one alone would make it shorter)",
        experiment="vc.phases",
        parts=(part(phases.drop_gap, Below(100), "between the drops", "epochs"),),
        places="section 4.1",
        figure="vc5",
        importance=2,
        meaning="there would be a long phase between the two",
    ),
    Claim(
        "VC.figure5.unstructured",
        "Before the first drop sequence embeddings have no clear structure.",
        f"when the first drop begins, a tenth of it being done, and a window (20 epochs) before, {CLUSTERED}, "
        f"means {RUNS}",
        experiment="vc.phases",
        parts=(
            part(phases.clustering_progress, Below(50), "when it begins", "%", moment="first_begin"),
            part(phases.clustering_progress, Below(50), "20 epochs before", "%", moment="before"),
        ),
        readings=("less than half of the structure that there will be", "nothing that the eye sees"),
        places="figure 5",
        figure="vc5",
        importance=2,
        meaning="clusters are there already, in large part, when the loss begins to fall",
    ),
    Claim(
        "VC.figure5.suddenly",
        "With the first drop they suddenly cluster.",
        f"from the begin of the first drop, and from a window before, to its end, {CLUSTERED}, in points, means {RUNS}",
        experiment="vc.phases",
        parts=(
            part(phases.clustering_gain, Above(50), "made in the first drop", "points"),
            part(phases.clustering_gain, Above(50), "or 20 epochs before it", "points", since="before"),
        ),
        places="figure 5",
        figure="vc5",
        importance=2,
        meaning="most of the clustering happens before the loss falls, or after",
    ),
    Claim(
        "VC.figure5.some-right",
        "When the second drop begins some clusters are already classified rightly, and not all.",
        "accuracy on all sequences at the begin of the second drop, mean of successful runs that have one",
        experiment="vc.phases",
        parts=(part(phases.accuracy_at_moment, Within(60, 98), "accuracy", "%", moment="second_begin"),),
        places="figure 5",
        figure="vc5",
        meaning="the feed-forward layer would be fitted wholly in one of the drops",
    ),
    Claim(
        "VC.figure5.example",
        "There is a run whose second drop begins 80 epochs after the end of the first.",
        "percentage of successful runs with 40 to 160 epochs between, a factor of 2 either way; one is enough",
        experiment="vc.phases",
        parts=(part(phases.gap_near_example, Exists(), "such runs", "%", low=40, high=160),),
        places="figure 5",
        figure="vc5",
        meaning="the figure would have no counterpart here",
    ),
    Claim(
        "VC.conclusion.predictable",
        "Low-level features come first, at a time that seems unpredictable; what follows is more predictable.",
        "spread over successful runs of the time from the begin of the first drop until the loss is half "
        "fallen for good, over that of when the first drop begins: ratio of standard deviations",
        experiment="vc.phases",
        parts=(part(phases.half_fall_spread, Below(1), "ratio of spreads", digits=2),),
        places="conclusion",
        meaning="the second phase would be as unpredictable as the first",
    ),
    Claim(
        "VC.s4.1.theory",
        "What is seen of saddles and of hierarchical learning resonates with theory.",
        places="section 4.1",
        untestable="what others have proven elsewhere, of other models",
    ),
)
