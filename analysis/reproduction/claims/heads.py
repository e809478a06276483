"""CH, VC's later version, known by its summary: clustering heads and how they form; and our own of circuits."""

from analysis.reproduction.claims.phases import BEHIND, RUNS
from analysis.reproduction.claims.saddles import FULL, MINI, RULE, WORDS
from analysis.reproduction.experiments import circuits, fixed_points, ideal, norms, phases, saddles
from analysis.reproduction.verification.claim import Claim, part
from analysis.reproduction.verification.rules import Above, Below, Every, Nearly

SUCCESSFUL = "of those runs of the default recipe that end above .98"

CH_CLAIMS = (
    Claim(
        name="CH.abstract.sandbox",
        source="CH, abstract",
        statement="The task and a sandbox that draws every layer are introduced.",
        covers=("abstract", "summary"),
        untestable="what is provided, and not a finding",
    ),
    Claim(
        name="CH.abstract.invariants",
        source="CH, abstract and summary",
        statement="Transformers that learn the task have clustering heads, circuits that realise its invariances.",
        measured=f"percentage, {SUCCESSFUL}, of circuits whose sequence embeddings lack no invariance to suffix and "
        "order (`analysis.clustering_heads.labels`)",
        refuted="half of them or fewer",
        study="vc.circuits",
        parts=(part(circuits.all_invariances, Above(50), "all invariances", "%"),),
        readings=(
            "sequence embeddings are invariant to suffix and order",
            "they form as many clusters as the ideal circuit's; see CH.abstract.clusters",
            "they form clusters by which the sum can be told; see OWN.sum",
        ),
        covers=("abstract", "summary"),
        figure="vc2",
        weight=3,
        meaning="the task is mostly solved without all its invariances",
    ),
    Claim(
        name="CH.abstract.clusters",
        source="CH, abstract and summary",
        statement="Such heads map sequences to clusters, as many as there are multisets of the tokens that count.",
        measured=f"percentage, {SUCCESSFUL}, with exactly six clusters of sequence embeddings",
        refuted="half of them or fewer",
        study="vc.circuits",
        parts=(part(circuits.ideal_clusters, Above(50), "six clusters", "%"),),
        covers=("abstract", "summary"),
        figure="vc2",
        weight=2,
        meaning="other numbers of clusters solve the task as often",
    ),
    Claim(
        name="CH.figure1.ideal",
        source="CH figure 1",
        statement="An ideal circuit captures all invariances and solves the task.",
        measured="circuits built by hand for p = 2: accuracy, and largest share of the variance of sequence embeddings "
        "that a spurious token or the order of two others makes, in that norm in which each is worst",
        refuted="an accuracy of 99% or less, and shares of a hundredth or more, to refute it wholly; some of these, "
        "partly",
        study="vc.ideal",
        parts=(
            part(ideal.construction_accuracy, Above(99), "accuracy", "%"),
            part(ideal.worst_construction, Below(0.01), "spurious tokens", digits=4, name="leak"),
            part(ideal.worst_construction, Below(0.01), "order", digits=4, name="unswapped"),
        ),
        covers=("figure 1",),
        figure="vc1",
        meaning="the ideal circuit would be no solution",
    ),
    Claim(
        name="CH.abstract.two-stages",
        source="CH, abstract and summary",
        statement="Learning has two stages: first sequence embeddings are structured, then a classifier is fitted.",
        measured=f"percentage, {SUCCESSFUL}, with two drops or more, and of those whose final clusters form before "
        "training accuracy tells them apart, those that do both in one of the frames that are looked at left out; and "
        "how much of the second drop's fall is the feed-forward layer's",
        refuted="half or fewer, or half of the fall or less, in all parts, to refute it wholly; in some, partly",
        study="vc.phases",
        parts=(
            part(phases.runs_with_drops, Above(50), "two drops", "%", least=2, of_all=False),
            part(phases.clusters_before_accuracy, Above(50), "clusters before classes", "%"),
            part(
                phases.loss_fall_by_layers,
                Above(50),
                "last layers in the second drop",
                "%",
                layers=BEHIND,
                phase="second",
            ),
        ),
        covers=("abstract", "summary", "figure 2"),
        figure="vc5",
        weight=3,
        meaning="both would be learned together",
    ),
    Claim(
        name="CH.figure2.snapshots",
        source="CH figure 2",
        statement="Sequence embeddings have no structure before the first drop, are clustered after it, some clusters "
        "are classified rightly then, and all after the second drop.",
        measured="percentage of the variance of sequence embeddings between their final clusters at begin and end of "
        "the first drop, and accuracy at begin and end of the second, means of successful runs",
        refuted="half or more clustered before, half or less after, an accuracy of 60% or less, and of 95% or less, in "
        "all parts, to refute it wholly; in some, partly",
        study="vc.phases",
        parts=(
            part(phases.clustering_progress, Below(50), "clustered 20 epochs before", "%", moment="before"),
            part(phases.clustering_progress, Below(50), "clustered when it begins", "%", moment="first_begin"),
            part(phases.clustering_progress, Above(50), "clustered after", "%", moment="first_end"),
            part(phases.accuracy_at_moment, Above(60), "accuracy before the second", "%", moment="second_begin"),
            part(phases.accuracy_at_moment, Above(95), "accuracy after it", "%", moment="second_end"),
        ),
        covers=("figure 2",),
        figure="vc5",
        weight=2,
        meaning="the snapshots would be those of one run",
    ),
    Claim(
        name="CH.figure3.norms",
        source="CH figure 3; summary",
        statement="With full batches phases of learning come with high gradient norms, which tell of saddle points.",
        measured=f"how many points more drops have a peak of the whole gradient's norm than by chance; {WORDS[FULL]}; "
        f"{RULE}",
        refuted="no more than by chance, or by less than 10 points",
        study="vc.norms",
        parts=(part(norms.excess_peaks, Above(0, 10), "more than by chance", "points", setup=FULL, kind="drop"),),
        covers=("figure 3", "summary"),
        figure="vc15",
        weight=2,
        meaning="gradient norms would be no diagnostic",
    ),
    Claim(
        name="CH.summary.stability",
        source="CH, summary",
        statement="Gradient norms tell how stable training is.",
        measured=f"how many points more spikes have a peak of the whole gradient's norm than by chance; {WORDS[MINI]}",
        refuted="no more than by chance, or by less than 10 points",
        study="vc.norms",
        parts=(part(norms.excess_peaks, Above(0, 10), "more than by chance", "points", setup=MINI, kind="spike"),),
        covers=("summary",),
        figure="vc16",
        meaning="gradient norms would be no diagnostic",
    ),
    Claim(
        name="CH.abstract.initialisation",
        source="CH, abstract and summary",
        statement="Where a run begins matters for which invariances it learns.",
        measured="how much more attention at the end of a run correlates with that at its own start than with that of "
        "other runs, mean over runs",
        refuted="no more, or by less than .1",
        study="vc.circuits",
        parts=(
            part(circuits.excess_start_similarity, Above(0, 0.1), "more than other runs", digits=2, name="inherited"),
        ),
        covers=("abstract", "summary"),
        figure="vc8",
        weight=2,
        meaning="first weights would not matter",
    ),
    Claim(
        name="CH.summary.fixed-points",
        source="CH, summary",
        statement="Clustering heads can be fixed points of gradient descent.",
        measured="the ideal circuit built by hand for p = 2 settles under weight decay of 1e-4, by descent and Newton "
        "steps on the loss over all sequences: gradient that is left, lowest eigenvalue of the Hessian among the "
        "directions that break an invariance, accuracy, and percentage of pushes from which descent comes nearer again",
        refuted="a gradient of 1e-8 or more, a way down, an accuracy of 98% or less, and half of the pushes or fewer, "
        "to refute it wholly; some of these, partly",
        study="ch.fixed-points",
        parts=(
            part(fixed_points.residual_gradient, Below(1e-8), "gradient", digits=12, circuit="settled"),
            part(fixed_points.breaking_eigenvalue, Above(0), "lowest eigenvalue", digits=6),
            part(fixed_points.settled_accuracy, Above(98), "accuracy", "%"),
            part(fixed_points.returned_pushes, Above(50), "pushes that shrink", "%"),
        ),
        readings=(
            "of a loss with weight decay",
            "of the cross-entropy alone; see CH.summary.fixed-points-without-decay",
            "of the dynamics that the later version's theorems are about, which the summary does not give",
        ),
        covers=("summary", "theorems"),
        weight=3,
        meaning="descent would leave clustering heads again",
    ),
    Claim(
        name="CH.summary.fixed-points-without-decay",
        source="CH, summary",
        statement="Clustering heads can be fixed points of gradient descent on the cross-entropy alone.",
        measured="norm of the gradient, over all sequences, at the ideal circuit built by hand with a moderate size of "
        "its logits",
        refuted="a gradient of 1e-8 or more: the loss falls as long as logits grow, and so has no fixed point that is "
        "finite",
        study="ch.fixed-points",
        parts=(part(fixed_points.residual_gradient, Below(1e-8), "gradient", digits=2),),
        readings=("a fixed point at finite weights", "a direction in which weights grow for ever"),
        covers=("summary",),
        meaning="without weight decay a circuit that solves the task is approached for ever, and is no fixed point",
    ),
    Claim(
        name="CH.summary.remarks",
        source="CH, remarks 3.1 to 3.3, proofs and further theorems",
        statement="Remarks on faithfulness to practice, on what lies beyond stationary points and on other pathways; "
        "proofs.",
        covers=("theorems", "remark 3.1", "remark 3.2", "remark 3.3"),
        untestable="only their titles are known here",
    ),
    Claim(
        name="CH.summary.more-figures",
        source="CH, figures 6 to 17",
        statement="Twelve more figures.",
        covers=("figures 6 to 17",),
        untestable="neither they nor their captions are known here",
    ),
)

OWN_CLAIMS = (
    Claim(
        name="OWN.sum",
        source="our own, of VC section 3.2 and CH's abstract",
        statement="Every successful run encodes one whole-number sum of its tokens that is congruent to the target, "
        "such as x0 + x1 + x2 + x3 - x4, whatever invariances it lacks.",
        measured=f"percentage, {SUCCESSFUL}, whose sequence embeddings have, along their leading direction, steps "
        "within a quarter of whole numbers of the residues that the target needs",
        refuted="a successful run that does not",
        study="vc.circuits",
        parts=(part(circuits.congruent_sums, Every(), "successful runs", "%"),),
        covers=("section 3.2",),
        figure="vc3",
        weight=2,
        meaning="some circuits solve the task without such a sum",
    ),
    Claim(
        name="OWN.sum-failures",
        source="our own, of VC section 3.2",
        statement="Runs that are not successful rarely do.",
        measured="percentage of the other runs that do",
        refuted="half of them or more",
        study="vc.circuits",
        parts=(part(circuits.congruent_failures, Below(50), "other runs", "%"),),
        covers=("section 3.2",),
        meaning="the sum would come without success",
    ),
    Claim(
        name="OWN.first-layers-fastest",
        source="our own, on VC section 4.1",
        statement="What changes its speed in the first drop are the layers that make sequence embeddings rather than "
        "the feed-forward layer.",
        measured="how much more the former speed up in the first drop than the latter, ratio of geometric means "
        f"{RUNS}",
        refuted="a ratio of 1 or less, or less than a quarter more",
        study="vc.phases",
        parts=(part(phases.front_speed_up, Above(1, 0.25), "first layers over last", digits=2),),
        covers=("section 4.1",),
        figure="vc5",
        weight=2,
        meaning="the feed-forward layer changes its speed most, already when sequence embeddings cluster",
    ),
    Claim(
        name="OWN.two-dimensions-suffice",
        source="our own, on VC appendix A.3 and section 1",
        statement="A solution of the task of p = 2 and 3 exists in two dimensions and the default width.",
        measured="accuracy on all sequences of circuits of d = 2 that are built by hand, in that norm in which it is "
        "lowest",
        refuted="no circuit built by hand that comes within a point of 100%, in both parts, to refute it wholly; in "
        "one, partly",
        study="vc.ideal",
        parts=(
            part(ideal.construction_accuracy, Above(99), "p = 2", "%", vocab=2),
            part(ideal.construction_accuracy, Above(99), "p = 3", "%", vocab=3),
        ),
        covers=("appendix A.3", "section 1"),
        figure="vc1",
        weight=2,
        meaning="two dimensions would be too few to express a solution; where one exists, runs that fail have not "
        "found it",
    ),
    Claim(
        name="OWN.escape",
        source="our own, of VC appendix A.1 and section 4.1",
        statement="A run leaves its saddle along the direction of most negative curvature, as gradient flow near a "
        "saddle would.",
        measured="percentage of the movement in the epoch of the largest fall of the loss that lies along the lowest "
        "eigenvector of the Hessian before it, mean over runs",
        refuted="half of it or less",
        study="vc.saddles",
        parts=(part(saddles.escape_along, Above(50), "along the lowest direction", "%", name="lowest_share"),),
        readings=("Adam's movement follows the lowest eigenvector", "it follows some direction of negative curvature"),
        covers=("appendix A.1", "section 4.1"),
        weight=2,
        meaning="escapes do not follow the most negative curvature: many directions are negative, and Adam follows "
        "none",
    ),
    Claim(
        name="OWN.escape-negative",
        source="our own, of VC appendix A.1 and section 4.1",
        statement="Networks leave their first plateau along directions of negative curvature.",
        measured="percentage of that movement within all negative directions, less that of a random movement, in "
        "points",
        refuted="no more than by chance, or by less than 10 points",
        study="vc.saddles",
        parts=(part(saddles.escape_beyond_chance, Above(0, 10), "more than by chance", "points"),),
        covers=("appendix A.1",),
        meaning="curvature would not tell how runs leave a saddle",
    ),
    Claim(
        name="OWN.saddles-only",
        source="our own, of VC appendix A.1",
        statement="Negative curvature does not mark plateaus: runs have it at their end as well.",
        measured="percentage of runs of mini-batches whose Hessian has negative eigenvalues at the end",
        refuted="more than one run in ten that has none, for certain; a single one, partly",
        study="vc.saddles",
        parts=(part(saddles.negative_curvature, Nearly(), "at the end", "%", setup=MINI, moment="end"),),
        covers=("appendix A.1",),
        meaning="runs would end in minima, and a negative eigenvalue would tell a plateau from an end",
    ),
)

CLAIMS = (*CH_CLAIMS, *OWN_CLAIMS)
