"""VC section 3, figures 1 to 4: the ideal circuit and its variations; section 4.1, figure 8: initialisation."""

from analysis.reproduction.odonnat2024 import circuits
from analysis.reproduction.odonnat2024 import ideal_circuits as ideal
from analysis.reproduction.verification.claim import Claim, part
from analysis.reproduction.verification.criteria import Above, Agrees, Below, Every, Exists, Nearly, Within
from analysis.reproduction.verification.estimate import reported_number

AMONG = (
    "of those runs of the default recipe that have learned a circuit, which come at least half-way from chance to all "
    "sequences right"
)
LABELS = "labels are those of `analysis.clustering_heads.labels`"
OF_LEARNED = "of the runs that have learned a circuit"
OF_ALL = "of all runs"

IDEAL = (
    Claim(
        "VC.s3.1.permutation",
        "Any network with one position embedding for all positions that count is invariant to the order of "
        "their tokens.",
        "percentage of random networks, p = 2 and 3, with one position embedding there of which the order of "
        "no two tokens makes more than a billionth of the variance of sequence embeddings",
        experiment="vc.ideal",
        parts=(part(ideal.networks_within_bound, Every(), "invariant", "%", name="order_share", up_to=ideal.BROKEN),),
        places="section 3.1",
        figure="vc1",
        meaning="collapsed positions would not be what to look for",
    ),
    Claim(
        "VC.s3.1.suffix",
        "A query that is aligned mainly with the embeddings at positions that count makes sequence "
        "embeddings invariant to the suffix.",
        "percentage of random networks, p = 2 and 3, whose positions that count lie along the query and the "
        "others opposite to it, of which no spurious token makes more than a hundredth of the variance",
        experiment="vc.ideal",
        parts=(part(ideal.networks_within_bound, Every(), "invariant", "%", name="value_share", up_to=ideal.LEAK),),
        places="section 3.1",
        figure="vc1",
        meaning="attention would not be what to look for",
    ),
    Claim(
        "VC.s3.1.clusters",
        "Such a construction has C(k+p-1, k) clusters of sequence embeddings: 6 of five tokens of two, 21 of "
        "five of three.",
        "clusters of the sequence embeddings of circuits built by hand, counted by single linkage at a tenth "
        "of their spread, in that norm in which they are furthest from this number",
        experiment="vc.ideal",
        parts=(
            part(ideal.worst_construction, Agrees(reported_number("6", 4), 0.5), "p = 2", digits=0, name="clusters"),
            part(
                ideal.worst_construction,
                Agrees(reported_number("21", 4), 0.5),
                "p = 3",
                digits=0,
                name="clusters",
                vocab=3,
            ),
        ),
        places="section 3.1",
        figure="vc1",
        importance=2,
        meaning="the number of clusters would not tell what has been learned",
    ),
    Claim(
        "VC.figure1.classes",
        "The feed-forward layer can map each of these clusters to its class, so that the ideal circuit "
        "solves the task, for p = 2 as drawn and for p = 3.",
        "accuracy on all sequences of circuits built by hand with the default width, in that norm in which it "
        "is lowest",
        experiment="vc.ideal",
        parts=(
            part(ideal.construction_accuracy, Agrees(reported_number("100", 4), 1), "p = 2", "%", vocab=2),
            part(ideal.construction_accuracy, Agrees(reported_number("100", 4), 1), "p = 3", "%", vocab=3),
        ),
        places="section 3.1, figure 1",
        figure="vc1",
        importance=2,
        meaning="the ideal circuit would be no solution",
    ),
    Claim(
        "VC.figure1.attention",
        "In the ideal circuit the query points to the embeddings of the positions that count, and attention "
        "is on these alone.",
        "percentage of attention on them, of circuits built by hand in this way, with p = 2 and 3, d = 2 and "
        "3 and every norm, in that in which it is lowest",
        experiment="vc.ideal",
        parts=(part(ideal.construction_attention, Above(95), "attention", "%"),),
        places="figure 1",
        figure="vc1",
        meaning="the drawn circuit would not attend as described",
    ),
)

KINDS = (
    Claim(
        "VC.s3.2.deviate",
        "What gradient descent finds deviates from the ideal circuit.",
        f"percentage, {AMONG}, of circuits that are not ideal: that attend elsewhere, or to part of the "
        f"tokens, or lack an invariance; {LABELS}",
        experiment="vc.circuits",
        parts=(part(circuits.not_ideal, Nearly(), "not ideal", "%"),),
        readings=(OF_LEARNED, OF_ALL),
        places="section 3.2",
        figure="vc2",
        importance=2,
        meaning="the ideal circuit would be found in practice",
    ),
    Claim(
        "VC.s3.2.corrected",
        "In many runs attention is not on the first five tokens alone, and what is attended to elsewhere "
        "makes no difference.",
        f"percentage, {AMONG}, that attend elsewhere too but lack no invariance; {LABELS}",
        experiment="vc.circuits",
        parts=(part(circuits.labelled_circuits, Above(10), "corrected", "%", label="corrected"),),
        readings=(OF_LEARNED, OF_ALL),
        places="section 3.2, figure 2",
        figure="vc2",
        importance=2,
        meaning="faulty attention would rarely be made up for",
    ),
    Claim(
        "VC.s3.2.by-value",
        "Faulty attention is made up for by the value matrix, which collapses the embeddings of the spurious "
        "tokens that are attended to.",
        "in circuits that attend elsewhere to no effect: how far spurious tokens lie apart after the value "
        "matrix over how far before it, both relative to tokens that count and weighted by attention, geometric mean "
        "over runs",
        experiment="vc.circuits",
        parts=(part(circuits.spurious_collapse, Below(0.5, 0.2), "after over before", digits=2),),
        readings=(
            "the value matrix itself brings spurious tokens together",
            "they are together where values are drawn, whatever brought them there",
        ),
        places="section 3.2, figure 2",
        figure="vc2",
        importance=2,
        meaning="spurious tokens coincide already as normalised embeddings, before the value matrix: in two dimensions "
        "an invertible one cannot hide what the direction of a sequence embedding tells",
    ),
    Claim(
        "VC.figure2.exists",
        "There is a run with faulty attention that is made up for.",
        f"percentage, {AMONG}, of such circuits; one is enough",
        experiment="vc.circuits",
        parts=(part(circuits.labelled_circuits, Exists(), "corrected", "%", label="corrected"),),
        places="figure 2",
        figure="vc2",
        meaning="the figure would have no counterpart here",
    ),
    Claim(
        "VC.s3.2.part-of-values",
        "There are runs that attend only to some tokens, such as those that are not 0, and still encode the sum.",
        f"percentage, {AMONG}, that lack no invariance while some token gets less than a quarter of the "
        "attention of another; one is enough",
        experiment="vc.circuits",
        parts=(part(circuits.labelled_circuits, Exists(), "part of the values", "%", label="part of the values"),),
        places="section 3.2",
        figure="vc2",
        meaning="this kind would have no counterpart here",
    ),
    Claim(
        "VC.s3.2.partial",
        "Frequently some invariances to suffix or order are not learned.",
        f"percentage, {AMONG}, whose sequence embeddings lack some, but not most, invariances; {LABELS}",
        experiment="vc.circuits",
        parts=(part(circuits.labelled_circuits, Above(10), "partial", "%", label="partial"),),
        readings=(OF_LEARNED, OF_ALL),
        places="section 3.2, figure 3",
        figure="vc3",
        importance=2,
        meaning="invariances would be learned whole or not at all",
    ),
    Claim(
        "VC.s3.2.partial-clusters",
        "Where invariances are missing there are more than six clusters of sequence embeddings.",
        "percentage of partial circuits with more clusters than six, by single linkage at a tenth of their spread",
        experiment="vc.circuits",
        parts=(part(circuits.more_clusters, Nearly(), "more than six", "%"),),
        readings=("always", "as a rule"),
        places="section 3.2, figure 3",
        figure="vc3",
        meaning="six clusters are no proof of the invariances, and missing ones need no more clusters",
    ),
    Claim(
        "VC.figure3.several",
        "There is a run that leaks at a spurious position and in which two positions that count do not swap "
        "with the others.",
        f"percentage, {AMONG}, in which both are so; one is enough",
        experiment="vc.circuits",
        parts=(part(circuits.several_missing, Exists(), "both missing", "%"),),
        places="section 3.2, figure 3",
        figure="vc3",
        meaning="the figure would have no counterpart here",
    ),
    Claim(
        "VC.s3.2.fuzzy",
        "Occasionally sequence embeddings cluster by an unconventional pattern that still generalises.",
        f"percentage, {AMONG}, that lack most invariances; {LABELS}",
        experiment="vc.circuits",
        parts=(
            part(circuits.labelled_circuits, Exists(), "at least one", "%", label="fuzzy"),
            part(circuits.labelled_circuits, Within(0, 10), "no more than one in ten", "%", label="fuzzy"),
        ),
        readings=(OF_LEARNED, OF_ALL),
        places="section 3.2, figure 4",
        figure="vc4",
        meaning="constructions like figure 4's would be common, or have no counterpart here",
    ),
    Claim(
        "VC.figure4.generalises",
        "There is a run of an unconventional pattern that is right on unseen sequences.",
        f"percentage, {AMONG}, that lack most invariances and are above .9 on sequences that do not occur in "
        "training; one is enough",
        experiment="vc.circuits",
        parts=(part(circuits.fuzzy_and_accurate, Exists(), "such runs", "%"),),
        readings=("most invariances are missing", "clusters stand for another sum of the tokens; see OWN.sum"),
        places="section 3.2, figure 4",
        figure="vc4",
        meaning="the figure would have no counterpart here",
    ),
    Claim(
        "VC.s3.2.often-invariant",
        "Networks that solve the task often capture its invariances.",
        "percentage of successful runs (above .98) whose sequence embeddings lack none",
        experiment="vc.circuits",
        parts=(part(circuits.all_invariances, Above(10), "all invariances", "%"),),
        readings=("all of them", "some of them"),
        places="section 3.2",
        figure="vc2",
        importance=2,
        meaning="the task would be solved without its invariances",
    ),
    Claim(
        "VC.s3.2.variety",
        "Networks solve the task by a variety of weight configurations.",
        "percentage of pairs of successful runs that encode different sums of the tokens, such as x0 + x1 + "
        "x2 + x3 - x4",
        experiment="vc.circuits",
        parts=(part(circuits.different_sums, Above(50), "different sums", "%"),),
        places="section 3.2",
        figure="vc3",
        meaning="there would be one solution in many coordinates",
    ),
    Claim(
        "VC.s3.2.no-geometry",
        "The circuits that networks find have no particularly striking geometry.",
        places="section 3.2",
        untestable="no geometry is named whose absence could be shown; see OWN.sum for a regularity that is there",
    ),
)

INHERITED = (
    Claim(
        "VC.s4.1.runs-differ",
        "The final configuration varies quite a lot from run to run.",
        "percentage of pairs of successful runs that encode different sums of the tokens",
        experiment="vc.circuits",
        parts=(part(circuits.different_sums, Above(50), "different sums", "%"),),
        places="section 4.1",
        meaning="all runs would end alike",
    ),
    Claim(
        "VC.figure8.attention",
        "Attention at the end is strongly similar to attention at the start.",
        "correlation over sequences and positions of attention at the first and last frame of a run, mean "
        "over runs; and how much more it is than between different runs",
        experiment="vc.circuits",
        parts=(
            part(circuits.start_similarity, Above(0.5), "start and end", digits=2, name="inherited"),
            part(circuits.excess_start_similarity, Above(0, 0.1), "more than other runs", digits=2, name="inherited"),
        ),
        readings=("the maps look alike: a large correlation", "more alike than those of different runs"),
        places="section 4.1, figure 8",
        figure="vc8",
        importance=2,
        meaning="attention at the end is related to that at the start, but most of it is learned",
    ),
    Claim(
        "VC.s4.1.initial-weights",
        "The final configuration is highly correlated with the initial weights.",
        "correlation of all final weights with all first weights of a run, each matrix in units of its size, "
        "mean over runs; and how much more it is than between different runs",
        experiment="vc.circuits",
        parts=(
            part(circuits.start_similarity, Above(0.5), "first and final weights", digits=2, name="weights_kept"),
            part(
                circuits.excess_start_similarity, Above(0, 0.1), "more than other runs", digits=2, name="weights_kept"
            ),
        ),
        readings=("final weights themselves correlate with first ones", "they depend on them in whatever way"),
        places="section 4.1, conclusion",
        figure="vc8",
        importance=2,
        meaning="where a run begins would not tell where it ends",
    ),
)

CLAIMS = (*IDEAL, *KINDS, *INHERITED)
