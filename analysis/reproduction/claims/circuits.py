"""VC section 3, figures 1 to 4: the ideal circuit and its variations; section 4.1, figure 8: initialisation."""

from analysis.reproduction.experiments import circuits, ideal
from analysis.reproduction.verification.claim import Claim, part
from analysis.reproduction.verification.estimate import reported_number
from analysis.reproduction.verification.rules import SOME, Above, Agrees, Below, Every, Nearly, Within

AMONG = (
    "of those runs of the default recipe that have learned a circuit, which come at least half-way from chance to all "
    "sequences right"
)
LABELS = "labels are those of `analysis.clustering_heads.labels`"
OF_LEARNED = "of the runs that have learned a circuit"
OF_ALL = "of all runs"

IDEAL = (
    Claim(
        name="VC.s3.1.permutation",
        source="VC section 3.1",
        statement="Any network with one position embedding for all positions that count is invariant to the order of "
        "their tokens.",
        measured="percentage of random networks, p = 2 and 3, with one position embedding there of which the order of "
        "no two tokens makes more than a billionth of the variance of sequence embeddings",
        refuted="one network of which it does not hold",
        study="vc.ideal",
        parts=(part(ideal.networks_within_bound, Every(), "invariant", "%", name="order_share", up_to=ideal.BROKEN),),
        covers=("section 3.1",),
        figure="vc1",
        meaning="collapsed positions would not be what to look for",
    ),
    Claim(
        name="VC.s3.1.suffix",
        source="VC section 3.1",
        statement="A query that is aligned mainly with the embeddings at positions that count makes sequence "
        "embeddings invariant to the suffix.",
        measured="percentage of random networks, p = 2 and 3, whose positions that count lie along the query and the "
        "others opposite to it, of which no spurious token makes more than a hundredth of the variance",
        refuted="one network of which it does not hold",
        study="vc.ideal",
        parts=(part(ideal.networks_within_bound, Every(), "invariant", "%", name="value_share", up_to=ideal.LEAK),),
        covers=("section 3.1",),
        figure="vc1",
        meaning="attention would not be what to look for",
    ),
    Claim(
        name="VC.s3.1.clusters",
        source="VC section 3.1 and its footnote",
        statement="Such a construction has C(k+p-1, k) clusters of sequence embeddings: 6 of five tokens of two, 21 of "
        "five of three.",
        measured="clusters of the sequence embeddings of circuits built by hand, counted by single linkage at a tenth "
        "of their spread, in that norm in which they are furthest from this number",
        refuted="any other number of any norm, in both parts, to refute it wholly; in one, partly",
        study="vc.ideal",
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
        covers=("section 3.1",),
        figure="vc1",
        weight=2,
        meaning="the number of clusters would not tell what has been learned",
    ),
    Claim(
        name="VC.figure1.classes",
        source="VC section 3.1 and figure 1",
        statement="The feed-forward layer can map each of these clusters to its class, so that the ideal circuit "
        "solves the task, for p = 2 as drawn and for p = 3.",
        measured="accuracy on all sequences of circuits built by hand with the default width, in that norm in which it "
        "is lowest",
        refuted="an accuracy more than a point below 100%, in both parts, to refute it wholly; in one, partly",
        study="vc.ideal",
        parts=(
            part(ideal.construction_accuracy, Agrees(reported_number("100", 4), 1), "p = 2", "%", vocab=2),
            part(ideal.construction_accuracy, Agrees(reported_number("100", 4), 1), "p = 3", "%", vocab=3),
        ),
        covers=("section 3.1", "figure 1"),
        figure="vc1",
        weight=2,
        meaning="the ideal circuit would be no solution",
    ),
    Claim(
        name="VC.figure1.attention",
        source="VC figure 1",
        statement="In the ideal circuit the query points to the embeddings of the positions that count, and attention "
        "is on these alone.",
        measured="percentage of attention on them, of circuits built by hand in this way, with p = 2 and 3, d = 2 and "
        "3 and every norm, in that in which it is lowest",
        refuted="less than 95%",
        study="vc.ideal",
        parts=(part(ideal.construction_attention, Above(95), "attention", "%"),),
        covers=("figure 1",),
        figure="vc1",
        meaning="the drawn circuit would not attend as described",
    ),
)

KINDS = (
    Claim(
        name="VC.s3.2.deviate",
        source="VC section 3.2, first sentence",
        statement="What gradient descent finds deviates from the ideal circuit.",
        measured=f"percentage, {AMONG}, of circuits that are not ideal: that attend elsewhere, or to part of the "
        f"tokens, or lack an invariance; {LABELS}",
        refuted="more than one run in ten with the ideal circuit, for certain; a single one, partly",
        study="vc.circuits",
        parts=(part(circuits.not_ideal, Nearly(), "not ideal", "%"),),
        readings=(OF_LEARNED, OF_ALL),
        covers=("section 3.2",),
        figure="vc2",
        weight=2,
        meaning="the ideal circuit would be found in practice",
    ),
    Claim(
        name="VC.s3.2.corrected",
        source="VC section 3.2, faulty attention",
        statement="In many runs attention is not on the first five tokens alone, and what is attended to elsewhere "
        "makes no difference.",
        measured=f"percentage, {AMONG}, that attend elsewhere too but lack no invariance; {LABELS}",
        refuted="fewer than one in ten",
        study="vc.circuits",
        parts=(part(circuits.labelled_circuits, Above(10), "corrected", "%", label="corrected"),),
        readings=(OF_LEARNED, OF_ALL),
        covers=("section 3.2", "figure 2"),
        figure="vc2",
        weight=2,
        meaning="faulty attention would rarely be made up for",
    ),
    Claim(
        name="VC.s3.2.by-value",
        source="VC section 3.2, faulty attention",
        statement="Faulty attention is made up for by the value matrix, which collapses the embeddings of the spurious "
        "tokens that are attended to.",
        measured="in circuits that attend elsewhere to no effect: how far spurious tokens lie apart after the value "
        "matrix over how far before it, both relative to tokens that count and weighted by attention, geometric mean "
        "over runs",
        refuted="a factor of .5 or more, so that most of it was there before the value matrix, or is not there at all",
        study="vc.circuits",
        parts=(part(circuits.spurious_collapse, Below(0.5, 0.2), "after over before", digits=2),),
        readings=(
            "the value matrix itself brings spurious tokens together",
            "they are together where values are drawn, whatever brought them there",
        ),
        covers=("section 3.2", "figure 2"),
        figure="vc2",
        weight=2,
        meaning="spurious tokens coincide already as normalised embeddings, before the value matrix: in two dimensions "
        "an invertible one cannot hide what the direction of a sequence embedding tells",
    ),
    Claim(
        name="VC.figure2.exists",
        source="VC figure 2",
        statement="There is a run with faulty attention that is made up for.",
        measured=f"percentage, {AMONG}, of such circuits; one is enough",
        refuted="none, and 5% excluded",
        study="vc.circuits",
        parts=(part(circuits.labelled_circuits, SOME, "corrected", "%", label="corrected"),),
        covers=("figure 2",),
        figure="vc2",
        meaning="the figure would have no counterpart here",
    ),
    Claim(
        name="VC.s3.2.part-of-values",
        source="VC section 3.2, faulty attention",
        statement="There are runs that attend only to some tokens, such as those that are not 0, and still encode the "
        "sum.",
        measured=f"percentage, {AMONG}, that lack no invariance while some token gets less than a quarter of the "
        "attention of another; one is enough",
        refuted="none, and 5% excluded",
        study="vc.circuits",
        parts=(part(circuits.labelled_circuits, SOME, "part of the values", "%", label="part of the values"),),
        covers=("section 3.2",),
        figure="vc2",
        meaning="this kind would have no counterpart here",
    ),
    Claim(
        name="VC.s3.2.partial",
        source="VC section 3.2, partially learned invariants",
        statement="Frequently some invariances to suffix or order are not learned.",
        measured=f"percentage, {AMONG}, whose sequence embeddings lack some, but not most, invariances; {LABELS}",
        refuted="fewer than one in ten",
        study="vc.circuits",
        parts=(part(circuits.labelled_circuits, Above(10), "partial", "%", label="partial"),),
        readings=(OF_LEARNED, OF_ALL),
        covers=("section 3.2", "figure 3"),
        figure="vc3",
        weight=2,
        meaning="invariances would be learned whole or not at all",
    ),
    Claim(
        name="VC.s3.2.partial-clusters",
        source="VC section 3.2, partially learned invariants",
        statement="Where invariances are missing there are more than six clusters of sequence embeddings.",
        measured="percentage of partial circuits with more clusters than six, by single linkage at a tenth of their "
        "spread",
        refuted="more than one partial circuit in ten with six or fewer, for certain; a single one, partly",
        study="vc.circuits",
        parts=(part(circuits.more_clusters, Nearly(), "more than six", "%"),),
        readings=("always", "as a rule"),
        covers=("section 3.2", "figure 3"),
        figure="vc3",
        meaning="six clusters are no proof of the invariances, and missing ones need no more clusters",
    ),
    Claim(
        name="VC.figure3.several",
        source="VC section 3.2 and figure 3",
        statement="There is a run that leaks at a spurious position and in which two positions that count do not swap "
        "with the others.",
        measured=f"percentage, {AMONG}, in which both are so; one is enough",
        refuted="none, and 5% excluded",
        study="vc.circuits",
        parts=(part(circuits.several_missing, SOME, "both missing", "%"),),
        covers=("section 3.2", "figure 3"),
        figure="vc3",
        meaning="the figure would have no counterpart here",
    ),
    Claim(
        name="VC.s3.2.fuzzy",
        source="VC section 3.2, fuzzy constructions",
        statement="Occasionally sequence embeddings cluster by an unconventional pattern that still generalises.",
        measured=f"percentage, {AMONG}, that lack most invariances; {LABELS}",
        refuted="none, and 5% excluded; or more than one in ten: either refutes it partly, since both cannot be",
        study="vc.circuits",
        parts=(
            part(circuits.labelled_circuits, SOME, "at least one", "%", label="fuzzy"),
            part(circuits.labelled_circuits, Within(0, 10), "no more than one in ten", "%", label="fuzzy"),
        ),
        readings=(OF_LEARNED, OF_ALL),
        covers=("section 3.2", "figure 4"),
        figure="vc4",
        meaning="constructions like figure 4's would be common, or have no counterpart here",
    ),
    Claim(
        name="VC.figure4.generalises",
        source="VC section 3.2 and figure 4",
        statement="There is a run of an unconventional pattern that is right on unseen sequences.",
        measured=f"percentage, {AMONG}, that lack most invariances and are above .9 on sequences that do not occur in "
        "training; one is enough",
        refuted="none, and 5% excluded",
        study="vc.circuits",
        parts=(part(circuits.fuzzy_and_accurate, SOME, "such runs", "%"),),
        readings=("most invariances are missing", "clusters stand for another sum of the tokens; see OWN.sum"),
        covers=("section 3.2", "figure 4"),
        figure="vc4",
        meaning="the figure would have no counterpart here",
    ),
    Claim(
        name="VC.s3.2.often-invariant",
        source="VC section 3.2, conclusion",
        statement="Networks that solve the task often capture its invariances.",
        measured="percentage of successful runs (above .98) whose sequence embeddings lack none",
        refuted="fewer than one in ten",
        study="vc.circuits",
        parts=(part(circuits.all_invariances, Above(10), "all invariances", "%"),),
        readings=("all of them", "some of them"),
        covers=("section 3.2",),
        figure="vc2",
        weight=2,
        meaning="the task would be solved without its invariances",
    ),
    Claim(
        name="VC.s3.2.variety",
        source="VC section 3.2, conclusion",
        statement="Networks solve the task by a variety of weight configurations.",
        measured="percentage of pairs of successful runs that encode different sums of the tokens, such as x0 + x1 + "
        "x2 + x3 - x4",
        refuted="most pairs encode the same",
        study="vc.circuits",
        parts=(part(circuits.different_sums, Above(50), "different sums", "%"),),
        covers=("section 3.2",),
        figure="vc3",
        meaning="there would be one solution in many coordinates",
    ),
    Claim(
        name="VC.s3.2.no-geometry",
        source="VC section 3.2, conclusion",
        statement="The circuits that networks find have no particularly striking geometry.",
        covers=("section 3.2",),
        untestable="no geometry is named whose absence could be shown; see OWN.sum for a regularity that is there",
    ),
)

INHERITED = (
    Claim(
        name="VC.s4.1.runs-differ",
        source="VC section 4.1, the influence of initialization",
        statement="The final configuration varies quite a lot from run to run.",
        measured="percentage of pairs of successful runs that encode different sums of the tokens",
        refuted="most pairs encode the same",
        study="vc.circuits",
        parts=(part(circuits.different_sums, Above(50), "different sums", "%"),),
        covers=("section 4.1",),
        meaning="all runs would end alike",
    ),
    Claim(
        name="VC.figure8.attention",
        source="VC section 4.1 and figure 8",
        statement="Attention at the end is strongly similar to attention at the start.",
        measured="correlation over sequences and positions of attention at the first and last frame of a run, mean "
        "over runs; and how much more it is than between different runs",
        refuted="a correlation of .5 or less, and no more than between different runs, or by less than .1, to refute "
        "it wholly; one of the two, partly",
        study="vc.circuits",
        parts=(
            part(circuits.start_similarity, Above(0.5), "start and end", digits=2, name="inherited"),
            part(circuits.excess_start_similarity, Above(0, 0.1), "more than other runs", digits=2, name="inherited"),
        ),
        readings=("the maps look alike: a large correlation", "more alike than those of different runs"),
        covers=("section 4.1", "figure 8"),
        figure="vc8",
        weight=2,
        meaning="attention at the end is related to that at the start, but most of it is learned",
    ),
    Claim(
        name="VC.s4.1.initial-weights",
        source="VC section 4.1, the influence of initialization; conclusion",
        statement="The final configuration is highly correlated with the initial weights.",
        measured="correlation of all final weights with all first weights of a run, each matrix in units of its size, "
        "mean over runs; and how much more it is than between different runs",
        refuted="a correlation of .5 or less, and no more than between different runs, or by less than .1, to refute "
        "it wholly; one of the two, partly",
        study="vc.circuits",
        parts=(
            part(circuits.start_similarity, Above(0.5), "first and final weights", digits=2, name="weights_kept"),
            part(
                circuits.excess_start_similarity, Above(0, 0.1), "more than other runs", digits=2, name="weights_kept"
            ),
        ),
        readings=("final weights themselves correlate with first ones", "they depend on them in whatever way"),
        covers=("section 4.1", "conclusion"),
        figure="vc8",
        weight=2,
        meaning="where a run begins would not tell where it ends",
    ),
)

CLAIMS = (*IDEAL, *KINDS, *INHERITED)
