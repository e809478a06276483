"""VC section 4.1, figure 5, and the conclusion: drops of the loss, two phases, escapes."""

from analysis.clustering_heads.learning_phases import SEQUENCE_EMBEDDING_WEIGHTS
from analysis.reproduction.experiments import phases
from analysis.reproduction.verification.claim import Claim, Measurement, part
from analysis.reproduction.verification.rules import SOME, Above, Below, Within

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
        name="VC.s4.1.drops",
        source="VC section 4.1, first paragraph",
        statement="Loss curves typically have drops.",
        measured="percentage of runs of the default recipe with a drop of the training loss that is not its first "
        "descent, and of successful ones with two (`analysis.transitions.change_points`)",
        refuted="half of them or fewer, of both, to refute it wholly; of one of the two, partly",
        study="vc.phases",
        parts=(
            part(phases.runs_with_drops, Above(50), "all runs, one or more", "%", least=1),
            part(phases.runs_with_drops, Above(50), "successful runs, two or more", "%", least=2, of_all=False),
        ),
        covers=("section 4.1",),
        figure="vc5",
        weight=2,
        meaning="losses would fall smoothly, or not at all",
    ),
    Claim(
        name="VC.s4.1.hierarchical",
        source="VC section 4.1, first paragraph; conclusion",
        statement="Drops are the learning of different parts of the network, from the first layers to the last.",
        measured="percentage of successful runs whose final clusters of sequence embeddings form before training "
        "accuracy comes half-way; and of those whose first layers come half-way to their end before the feed-forward "
        "layer does; runs that do both in one of the frames that are looked at are left out",
        refuted="half of them or fewer, of both, to refute it wholly; of one of the two, partly",
        study="vc.phases",
        parts=(
            part(phases.clusters_before_accuracy, Above(50), "clusters before classes", "%"),
            part(phases.front_first, Above(50), "weights, first layers before last", "%"),
        ),
        readings=(
            "what the first layers make is there before what the last ones make of it, and their weights settle first",
            "the outputs are ordered, whatever the weights do",
        ),
        covers=("section 4.1", "conclusion"),
        figure="vc5",
        weight=3,
        meaning="parts of the network are learned together, or the last ones first",
    ),
    Claim(
        name="VC.s4.1.first-drop",
        source="VC section 4.1, first loss drop",
        statement="The first drop is the learning of the sequence embeddings.",
        measured="percentage of successful runs whose final clusters form within a window (20 epochs) of the first "
        f"drop; {WORK}",
        refuted="half of them or fewer, and half of the fall or less from the layers that make sequence embeddings, to "
        "refute it wholly; one of the two, partly",
        study="vc.phases",
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
        covers=("section 4.1", "figure 5"),
        figure="vc5",
        weight=3,
        meaning="in the first drop the feed-forward layer is learned as well, and as much",
    ),
    Claim(
        name="VC.s4.1.phase-change",
        source="VC section 4.1, first loss drop",
        statement="The first drop is a change of phase of the weights, which all move rapidly then.",
        measured=f"how many times as fast each layer moves in the first drop as before it, medians {RUNS}",
        refuted="no layer that is faster, by half at least, to refute it wholly; some that are not, partly",
        study="vc.phases",
        parts=(
            part(phases.total_speed_up, Above(1, 0.5), "all weights together"),
            *map(_layer_speed_measurement, LAYERS),
        ),
        readings=("every layer speeds up", "the weights as a whole do"),
        covers=("section 4.1",),
        figure="vc5",
        weight=2,
        meaning="weights would move in the drop as they did before",
    ),
    Claim(
        name="VC.s4.1.wander",
        source="VC section 4.1, first loss drop",
        statement="Before it, weights wander as if trapped in a saddle, waiting for a signal.",
        measured="distance over length of path of all weights in the first drop, less that over stretches as long "
        f"before it, mean {RUNS}",
        refuted="no straighter in the drop, or by less than .05",
        study="vc.phases",
        parts=(part(phases.straightness_gain, Above(0, 0.05), "straighter in the drop", digits=2),),
        readings=(
            "paths are less straight before the drop than in it",
            "gradients are small; see VC.appA.1.plateau-saddle",
        ),
        covers=("section 4.1",),
        meaning="weights would move as straight before the drop as in it",
    ),
    Claim(
        name="VC.s4.1.definitive",
        source="VC section 4.1, first loss drop",
        statement="The first drop leaves the sequence embeddings with a relatively definitive structure.",
        measured=f"at the end of the first drop, {CLUSTERED}, mean {RUNS}",
        refuted="half of it or less",
        study="vc.phases",
        parts=(part(phases.clustering_progress, Above(50), "way to final clusters", "%", moment="first_end"),),
        covers=("section 4.1", "figure 5"),
        figure="vc5",
        meaning="the structure would still change afterwards",
    ),
    Claim(
        name="VC.s4.1.escape-spread",
        source="VC section 4.1, first loss drop",
        statement="The time until the first drop differs a lot from run to run.",
        measured="percentage of runs that take more than twice, or less than half, as long as the median run until the "
        "loss has lost a tenth of its first level, those that never do counting as longer",
        refuted="fewer than one run in ten; it cannot be told where fewer than half of the runs escape",
        study="vc.phases",
        parts=(part(phases.escape_spread, Above(10), "apart by a factor of 2", "%"),),
        readings=("over first weights", "over hyperparameters; see VC.s4.1.time-varies"),
        covers=("section 4.1", "conclusion"),
        meaning="runs would escape at much the same time",
    ),
    Claim(
        name="VC.s4.1.second-drop",
        source="VC section 4.1, second loss drop",
        statement="The second drop is the learning of the feed-forward layer.",
        measured=WORK,
        refuted="half of the fall or less from the feed-forward layer",
        study="vc.phases",
        parts=(
            part(phases.loss_fall_by_layers, Above(50), "share of the last layers", "%", layers=BEHIND, phase="second"),
        ),
        covers=("section 4.1", "figure 5"),
        figure="vc5",
        weight=3,
        meaning="in the second drop the sequence embeddings still change, and as much depends on it",
    ),
    Claim(
        name="VC.s4.1.no-second-change",
        source="VC section 4.1, second loss drop",
        statement="In the second drop there is no change of phase: feed-forward weights go on at the same speed.",
        measured="how many times as fast receptors, their biases and assemblers move in the second drop as between the "
        f"two, medians {RUNS}",
        refuted="more than twice or less than half as fast, in all parts, to refute it wholly; in some, partly",
        study="vc.phases",
        parts=tuple(
            part(phases.layer_speed_up, Within(0.5, 2), layer.replace("_", " "), layer=layer, phase="second")
            for layer in phases.BACK
        ),
        covers=("section 4.1",),
        figure="vc5",
        weight=2,
        meaning="the second drop would be a change of phase like the first",
    ),
    Claim(
        name="VC.s4.1.frontiers",
        source="VC section 4.1, second loss drop",
        statement="In the second drop decision frontiers change relatively strongly nevertheless.",
        measured="percentage of sequences that the feed-forward layer after the drop classifies otherwise than that "
        f"before it, at unchanged sequence embeddings, mean {RUNS}",
        refuted="one in ten or fewer",
        study="vc.phases",
        parts=(part(phases.reclassified_sequences, Above(10), "classified otherwise", "%"),),
        covers=("section 4.1",),
        figure="vc5",
        meaning="frontiers would hardly move",
    ),
    Claim(
        name="VC.s4.1.soon",
        source="VC section 4.1, second loss drop",
        statement="The second drop comes soon after the first, or with it.",
        measured="epochs from the first drop's end to the second's begin, median over the successful runs that have "
        "both (those with one alone would make it shorter)",
        refuted="100 epochs, a tenth of the training, or more",
        study="vc.phases",
        parts=(part(phases.drop_gap, Below(100), "between the drops", "epochs"),),
        covers=("section 4.1",),
        figure="vc5",
        weight=2,
        meaning="there would be a long phase between the two",
    ),
    Claim(
        name="VC.figure5.unstructured",
        source="VC figure 5, first snapshot",
        statement="Before the first drop sequence embeddings have no clear structure.",
        measured=f"when the first drop begins, a tenth of it being done, and a window (20 epochs) before, {CLUSTERED}, "
        f"means {RUNS}",
        refuted="half of it or more, at both moments, to refute it wholly; at one, partly",
        study="vc.phases",
        parts=(
            part(phases.clustering_progress, Below(50), "when it begins", "%", moment="first_begin"),
            part(phases.clustering_progress, Below(50), "20 epochs before", "%", moment="before"),
        ),
        readings=("less than half of the structure that there will be", "nothing that the eye sees"),
        covers=("figure 5",),
        figure="vc5",
        weight=2,
        meaning="clusters are there already, in large part, when the loss begins to fall",
    ),
    Claim(
        name="VC.figure5.suddenly",
        source="VC figure 5, second snapshot",
        statement="With the first drop they suddenly cluster.",
        measured=f"from the begin of the first drop, and from a window before, to its end, {CLUSTERED}, in points, "
        f"means {RUNS}",
        refuted="half of the way or less, in both parts, to refute it wholly; in one, partly",
        study="vc.phases",
        parts=(
            part(phases.clustering_gain, Above(50), "made in the first drop", "points"),
            part(phases.clustering_gain, Above(50), "or 20 epochs before it", "points", since="before"),
        ),
        covers=("figure 5",),
        figure="vc5",
        weight=2,
        meaning="most of the clustering happens before the loss falls, or after",
    ),
    Claim(
        name="VC.figure5.some-right",
        source="VC figure 5, third snapshot",
        statement="When the second drop begins some clusters are already classified rightly, and not all.",
        measured="accuracy on all sequences at the begin of the second drop, mean of successful runs that have one",
        refuted="no more than 60% (chance is 50), or 98% and more",
        study="vc.phases",
        parts=(part(phases.accuracy_at_moment, Within(60, 98), "accuracy", "%", moment="second_begin"),),
        covers=("figure 5",),
        figure="vc5",
        meaning="the feed-forward layer would be fitted wholly in one of the drops",
    ),
    Claim(
        name="VC.figure5.example",
        source="VC figure 5: snapshots at epochs 244, 260, 340 and 365",
        statement="There is a run whose second drop begins 80 epochs after the end of the first.",
        measured="percentage of successful runs with 40 to 160 epochs between, a factor of 2 either way; one is enough",
        refuted="none, and 5% excluded",
        study="vc.phases",
        parts=(part(phases.gap_near_example, SOME, "such runs", "%", low=40, high=160),),
        covers=("figure 5",),
        figure="vc5",
        meaning="the figure would have no counterpart here",
    ),
    Claim(
        name="VC.conclusion.predictable",
        source="VC conclusion, second paragraph",
        statement="Low-level features come first, at a time that seems unpredictable; what follows is more "
        "predictable.",
        measured="spread over successful runs of the time from the begin of the first drop until the loss is half "
        "fallen for good, over that of when the first drop begins: ratio of standard deviations",
        refuted="a ratio of 1 or more",
        study="vc.phases",
        parts=(part(phases.half_fall_spread, Below(1), "ratio of spreads", digits=2),),
        covers=("conclusion",),
        meaning="the second phase would be as unpredictable as the first",
    ),
    Claim(
        name="VC.s4.1.theory",
        source="VC section 4.1",
        statement="What is seen of saddles and of hierarchical learning resonates with theory.",
        covers=("section 4.1",),
        untestable="what others have proven elsewhere, of other models",
    ),
)
