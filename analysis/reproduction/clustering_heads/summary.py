"""Claims of CH, the later version of VC, of which only the summary is known, on evidence of VC's experiments.

Clustering heads are circuits whose sequence embeddings are invariant to suffix and order. CH's claims on curricula are
in the module on transfer, those on spikes in that on spikes.
"""

from analysis.reproduction.odonnat2024 import circuits, gradient_norms, ideal_circuits, phases
from analysis.reproduction.verification.claim import (
    Claim,
    claims_of,
    constructed,
    finding,
    main_result,
    part,
    parts_over,
)
from analysis.reproduction.verification.criteria import Above, Below

MOST, FEW = Above(50, 10, ours=True), Below(50, 10, ours=True)
SUCCESSFUL = "percentage of successful runs (test accuracy above .98)"

ON_CIRCUITS = claims_of(
    circuits.CIRCUITS,
    main_result(
        "CH.abstract.invariants",
        "Transformers learn the task by clustering heads, circuits that have its invariances.",
        f"{SUCCESSFUL} whose sequence embeddings lack no invariance to suffix and order",
        (circuits.percentage_part(MOST, "circuits with all invariances", among="successful runs"),),
        readings=("embeddings lack no invariance", "six clusters; see CH.abstract.clusters", "a sum; see OWN.sum"),
        figure="vc2",
        meaning="networks mostly solve the task without all its invariances",
    ),
    finding(
        "CH.abstract.clusters",
        "Clustering heads map sequences to as many clusters as there are multisets of the non-spurious tokens: six.",
        f"{SUCCESSFUL} with six clusters by single linkage, over link lengths that span a factor of 2 or more, and at "
        "single link lengths (fractions of the spread)",
        (
            part(circuits.lasting_six_clusters, MOST, "over a factor of 2", "%", factor=2),
            *parts_over("link", circuits.LINKS, circuits.six_clusters, MOST, "at link length {:g}", "%"),
        ),
        figure="vc2",
    ),
    finding(
        "CH.abstract.initialisation",
        "The initial weights influence which invariances a run learns.",
        "correlation of a run's attention at start and end, less that between different runs",
        (part(circuits.excess_start_similarity, Above(0, 0.1), "", digits=2, name="inherited"),),
        figure="vc8",
    ),
)

IDEAL = claims_of(
    ideal_circuits.IDEAL,
    constructed(
        "CH.figure1.ideal",
        "An ideal circuit has all invariances and solves the task.",
        f"accuracy for p = 2; {ideal_circuits.VARIANCES}",
        (
            part(ideal_circuits.worst_circuit, Above(99), "accuracy", "%", name="accuracy", vocab=2, dim=2, scale=100),
            *(
                part(ideal_circuits.worst_circuit, Below(0.01), label, digits=4, name=name, vocab=2, dim=2)
                for name, label in ideal_circuits.INVARIANCES.items()
            ),
        ),
    ),
)

STAGES = claims_of(
    phases.PHASES,
    main_result(
        "CH.abstract.two-stages",
        "Learning has two stages: first sequence embeddings are structured, then a classifier is fitted.",
        f"{SUCCESSFUL} with two drops, and with clusters before classes; percentage of the second drop due to the MLP",
        (
            part(phases.runs_with_drops, MOST, "two drops", "%", least=2, of_all=False),
            part(phases.clusters_before_accuracy, MOST, "clusters before classes", "%"),
            part(phases.loss_fall_by_layers, MOST, "MLP in the second drop", "%", layers=phases.BEHIND, phase="second"),
        ),
        figure="vc5",
    ),
    finding(
        "CH.figure2.snapshots",
        "Sequence embeddings have no structure before the first drop and are clustered after it; the MLP classifies "
        "some clusters correctly then, and all after the second drop.",
        "percentage of the final clustering, and accuracy, at begin and end of the drops, means over successful runs",
        (
            part(phases.clustering_progress, FEW, "clustered 20 epochs before", "%", moment="before"),
            part(phases.clustering_progress, FEW, "clustered when it begins", "%", moment="first_begin"),
            part(phases.clustering_progress, MOST, "clustered after", "%", moment="first_end"),
            part(phases.accuracy_at_moment, MOST, "accuracy before the second", "%", moment="second_begin"),
            part(phases.accuracy_at_moment, Above(95, ours=True), "accuracy after it", "%", moment="second_end"),
        ),
        figure="vc5",
    ),
)

NORMS = claims_of(
    gradient_norms.NORMS,
    finding(
        "CH.figure3.norms",
        "With full batches phases of learning come with high gradient norms, which indicate saddle points.",
        f"percentage of drops of the loss with a peak of the gradient norm, less that by chance; {gradient_norms.RULE}",
        (part(gradient_norms.excess_peaks, Above(0, 10), "", "points", setup=gradient_norms.FULL, kind="drop"),),
        figure="vc15",
    ),
    Claim(
        "CH.summary.stability",
        "Gradient norms indicate how stable training is.",
        "percentage of loss spikes with a peak of the gradient norm, less that by chance, with mini-batches",
        (part(gradient_norms.excess_peaks, Above(0, 10), "", "points", setup=gradient_norms.MINI, kind="spike"),),
    ),
)

CLAIMS = (*ON_CIRCUITS, *IDEAL, *STAGES, *NORMS)
