"""CH, VC's later version, known by its summary: clustering heads and how they form; and our own of circuits."""

from analysis.reproduction.claims.saddles import FULL, MINI, RULE, WORDS
from analysis.reproduction.clustering_heads import fixed_points
from analysis.reproduction.experiments import norms, saddles
from analysis.reproduction.odonnat2024 import circuits, phases
from analysis.reproduction.odonnat2024 import ideal_circuits as ideal
from analysis.reproduction.verification.claim import Claim, part
from analysis.reproduction.verification.criteria import Above, Below, Every, Nearly

SUCCESSFUL = "of those runs of the default recipe that end above .98"

CH_CLAIMS = (
    Claim(
        "CH.abstract.sandbox",
        "The task and a sandbox that draws every layer are introduced.",
        places="abstract, summary",
        untestable="what is provided, and not a finding",
    ),
    Claim(
        "CH.abstract.invariants",
        "Transformers that learn the task have clustering heads, circuits that realise its invariances.",
        f"percentage, {SUCCESSFUL}, of circuits whose sequence embeddings lack no invariance to suffix and "
        "order (`analysis.clustering_heads.labels`)",
        experiment="vc.circuits",
        parts=(part(circuits.all_invariances, Above(50), "all invariances", "%"),),
        readings=(
            "sequence embeddings are invariant to suffix and order",
            "they form as many clusters as the ideal circuit's; see CH.abstract.clusters",
            "they form clusters by which the sum can be told; see OWN.sum",
        ),
        places="abstract, summary",
        figure="vc2",
        importance=3,
        meaning="the task is mostly solved without all its invariances",
    ),
    Claim(
        "CH.abstract.clusters",
        "Such heads map sequences to clusters, as many as there are multisets of the tokens that count.",
        f"percentage, {SUCCESSFUL}, with exactly six clusters of sequence embeddings",
        experiment="vc.circuits",
        parts=(part(circuits.ideal_clusters, Above(50), "six clusters", "%"),),
        places="abstract, summary",
        figure="vc2",
        importance=2,
        meaning="other numbers of clusters solve the task as often",
    ),
    Claim(
        "CH.figure1.ideal",
        "An ideal circuit captures all invariances and solves the task.",
        "circuits built by hand for p = 2: accuracy, and largest share of the variance of sequence embeddings "
        "that a spurious token or the order of two others makes, in that norm in which each is worst",
        experiment="vc.ideal",
        parts=(
            part(ideal.construction_accuracy, Above(99), "accuracy", "%"),
            part(ideal.worst_construction, Below(0.01), "spurious tokens", digits=4, name="leak"),
            part(ideal.worst_construction, Below(0.01), "order", digits=4, name="unswapped"),
        ),
        places="figure 1",
        figure="vc1",
        meaning="the ideal circuit would be no solution",
    ),
    Claim(
        "CH.abstract.two-stages",
        "Learning has two stages: first sequence embeddings are structured, then a classifier is fitted.",
        f"percentage, {SUCCESSFUL}, with two drops or more, and of those whose final clusters form before "
        "training accuracy tells them apart, those that do both in one of the frames that are looked at left out; and "
        "how much of the second drop's fall is the feed-forward layer's",
        experiment="vc.phases",
        parts=(
            part(phases.runs_with_drops, Above(50), "two drops", "%", least=2, of_all=False),
            part(phases.clusters_before_accuracy, Above(50), "clusters before classes", "%"),
            part(
                phases.loss_fall_by_layers,
                Above(50),
                "last layers in the second drop",
                "%",
                layers=phases.BEHIND,
                phase="second",
            ),
        ),
        places="abstract, summary, figure 2",
        figure="vc5",
        importance=3,
        meaning="both would be learned together",
    ),
    Claim(
        "CH.figure2.snapshots",
        "Sequence embeddings have no structure before the first drop, are clustered after it, some clusters "
        "are classified rightly then, and all after the second drop.",
        "percentage of the variance of sequence embeddings between their final clusters at begin and end of "
        "the first drop, and accuracy at begin and end of the second, means of successful runs",
        experiment="vc.phases",
        parts=(
            part(phases.clustering_progress, Below(50), "clustered 20 epochs before", "%", moment="before"),
            part(phases.clustering_progress, Below(50), "clustered when it begins", "%", moment="first_begin"),
            part(phases.clustering_progress, Above(50), "clustered after", "%", moment="first_end"),
            part(phases.accuracy_at_moment, Above(60), "accuracy before the second", "%", moment="second_begin"),
            part(phases.accuracy_at_moment, Above(95), "accuracy after it", "%", moment="second_end"),
        ),
        places="figure 2",
        figure="vc5",
        importance=2,
        meaning="the snapshots would be those of one run",
    ),
    Claim(
        "CH.figure3.norms",
        "With full batches phases of learning come with high gradient norms, which tell of saddle points.",
        f"how many points more drops have a peak of the whole gradient's norm than by chance; {WORDS[FULL]}; {RULE}",
        experiment="vc.norms",
        parts=(part(norms.excess_peaks, Above(0, 10), "more than by chance", "points", setup=FULL, kind="drop"),),
        places="figure 3, summary",
        figure="vc15",
        importance=2,
        meaning="gradient norms would be no diagnostic",
    ),
    Claim(
        "CH.summary.stability",
        "Gradient norms tell how stable training is.",
        f"how many points more spikes have a peak of the whole gradient's norm than by chance; {WORDS[MINI]}",
        experiment="vc.norms",
        parts=(part(norms.excess_peaks, Above(0, 10), "more than by chance", "points", setup=MINI, kind="spike"),),
        places="summary",
        figure="vc16",
        meaning="gradient norms would be no diagnostic",
    ),
    Claim(
        "CH.abstract.initialisation",
        "Where a run begins matters for which invariances it learns.",
        "how much more attention at the end of a run correlates with that at its own start than with that of "
        "other runs, mean over runs",
        experiment="vc.circuits",
        parts=(
            part(circuits.excess_start_similarity, Above(0, 0.1), "more than other runs", digits=2, name="inherited"),
        ),
        places="abstract, summary",
        figure="vc8",
        importance=2,
        meaning="first weights would not matter",
    ),
    Claim(
        "CH.summary.fixed-points",
        "Clustering heads can be fixed points of gradient descent.",
        "the ideal circuit built by hand for p = 2 settles under weight decay of 1e-4, by descent and Newton "
        "steps on the loss over all sequences: gradient that is left, lowest eigenvalue of the Hessian among the "
        "directions that break an invariance, accuracy, and percentage of pushes from which descent comes nearer again",
        experiment="ch.fixed-points",
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
        places="summary, theorems",
        importance=3,
        meaning="descent would leave clustering heads again",
    ),
    Claim(
        "CH.summary.fixed-points-without-decay",
        "Clustering heads can be fixed points of gradient descent on the cross-entropy alone.",
        "norm of the gradient, over all sequences, at the ideal circuit built by hand with a moderate size of "
        "its logits",
        experiment="ch.fixed-points",
        parts=(part(fixed_points.residual_gradient, Below(1e-8), "gradient", digits=2),),
        readings=("a fixed point at finite weights", "a direction in which weights grow for ever"),
        places="summary",
        meaning="without weight decay a circuit that solves the task is approached for ever, and is no fixed point",
    ),
    Claim(
        "CH.summary.remarks",
        "Remarks on faithfulness to practice, on what lies beyond stationary points and on other pathways; proofs.",
        places="theorems, remark 3.1, remark 3.2, remark 3.3",
        untestable="only their titles are known here",
    ),
    Claim(
        "CH.summary.more-figures",
        "Twelve more figures.",
        places="figures 6 to 17",
        untestable="neither they nor their captions are known here",
    ),
)

OWN_CLAIMS = (
    Claim(
        "OWN.sum",
        "Every successful run encodes one whole-number sum of its tokens that is congruent to the target, "
        "such as x0 + x1 + x2 + x3 - x4, whatever invariances it lacks.",
        f"percentage, {SUCCESSFUL}, whose sequence embeddings have, along their leading direction, steps "
        "within a quarter of whole numbers of the residues that the target needs",
        experiment="vc.circuits",
        parts=(part(circuits.congruent_sums, Every(), "successful runs", "%"),),
        places="section 3.2",
        figure="vc3",
        importance=2,
        meaning="some circuits solve the task without such a sum",
    ),
    Claim(
        "OWN.sum-failures",
        "Runs that are not successful rarely do.",
        "percentage of the other runs that do",
        experiment="vc.circuits",
        parts=(part(circuits.congruent_failures, Below(50), "other runs", "%"),),
        places="section 3.2",
        meaning="the sum would come without success",
    ),
    Claim(
        "OWN.first-layers-fastest",
        "What changes its speed in the first drop are the layers that make sequence embeddings rather than "
        "the feed-forward layer.",
        f"how much more the former speed up in the first drop than the latter, ratio of means {phases.OF_RUNS}",
        experiment="vc.phases",
        parts=(part(phases.front_speed_up, Above(1, 0.25), "first layers over last", digits=2),),
        places="section 4.1",
        figure="vc5",
        importance=2,
        meaning="the feed-forward layer changes its speed most, already when sequence embeddings cluster",
    ),
    Claim(
        "OWN.two-dimensions-suffice",
        "A solution of the task of p = 2 and 3 exists in two dimensions and the default width.",
        "accuracy on all sequences of circuits of d = 2 that are built by hand, in that norm in which it is lowest",
        experiment="vc.ideal",
        parts=(
            part(ideal.construction_accuracy, Above(99), "p = 2", "%", vocab=2),
            part(ideal.construction_accuracy, Above(99), "p = 3", "%", vocab=3),
        ),
        places="appendix A.3, section 1",
        figure="vc1",
        importance=2,
        meaning="two dimensions would be too few to express a solution; where one exists, runs that fail have not "
        "found it",
    ),
    Claim(
        "OWN.escape",
        "A run leaves its saddle along the direction of most negative curvature, as gradient flow near a saddle would.",
        "percentage of the movement in the epoch of the largest fall of the loss that lies along the lowest "
        "eigenvector of the Hessian before it, mean over runs",
        experiment="vc.saddles",
        parts=(part(saddles.escape_along, Above(50), "along the lowest direction", "%", name="lowest_share"),),
        readings=("Adam's movement follows the lowest eigenvector", "it follows some direction of negative curvature"),
        places="appendix A.1, section 4.1",
        importance=2,
        meaning="escapes do not follow the most negative curvature: many directions are negative, and Adam follows "
        "none",
    ),
    Claim(
        "OWN.escape-negative",
        "Networks leave their first plateau along directions of negative curvature.",
        "percentage of that movement within all negative directions, less that of a random movement, in points",
        experiment="vc.saddles",
        parts=(part(saddles.escape_beyond_chance, Above(0, 10), "more than by chance", "points"),),
        places="appendix A.1",
        meaning="curvature would not tell how runs leave a saddle",
    ),
    Claim(
        "OWN.saddles-only",
        "Negative curvature does not mark plateaus: runs have it at their end as well.",
        "percentage of runs of mini-batches whose Hessian has negative eigenvalues at the end",
        experiment="vc.saddles",
        parts=(part(saddles.negative_curvature, Nearly(), "at the end", "%", setup=MINI, moment="end"),),
        places="appendix A.1",
        meaning="runs would end in minima, and a negative eigenvalue would tell a plateau from an end",
    ),
)

CLAIMS = (*CH_CLAIMS, *OWN_CLAIMS)
