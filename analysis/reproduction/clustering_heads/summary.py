"""Claims of CH, the later version of VC, of which only the summary is known, on evidence of VC's experiments.

Here are those on phases of learning and on gradient norms. CH's claims on clustering heads, circuits whose sequence
embeddings are invariant to suffix and order, on curricula and on spikes are in VC's modules on these.
"""

from analysis.reproduction.odonnat2024 import gradient_norms, phases
from analysis.reproduction.verification.claim import Claim, claims_of, finding, main_result, part
from analysis.reproduction.verification.criteria import Above, Below

MOST, FEW = Above(50, 10, ours=True), Below(50, 10, ours=True)
SUCCESSFUL = "percentage of successful runs (test accuracy above .98)"

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

CLAIMS = (*STAGES, *NORMS)
