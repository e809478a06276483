"""VC appendix A.2, figures 17 and 20: sparsity of hidden activations."""

from analysis.reproduction.experiments import sparsity
from analysis.reproduction.verification.claim import Claim, part
from analysis.reproduction.verification.rules import Above, Below, Nearly

CURVE = (
    "share of hidden activations below eps in absolute value, on the test data, averaged over log eps from 1e-3 to 10"
)
AGAINST = (
    "rank-biserial correlation (-1 where every success is below every failure) of success, above .9 test accuracy, "
    f"with the {CURVE}"
)
OTHERS = tuple(part(sparsity.success_sparsity, Below(0, 0.3), f"d = {dim}", digits=2, dim=dim) for dim in (3, 4, 8))

CLAIMS = (
    Claim(
        name="VC.appA.2.literature",
        source="VC appendix A.2, first two paragraphs",
        statement="Sparsity matters in many fields, trained transformers have sparse activations, the more so the "
        "deeper they are; sparsity is measured as the share of activations below eps, since GELU has no exact zeros.",
        covers=("appendix A.2",),
        untestable="what others have found in other models, and a definition, which is the one used here",
    ),
    Claim(
        name="VC.figure17.range",
        source="VC appendix A.2",
        statement="From eps = 1e-5 to 100 sparsity goes from none to all.",
        measured="percentage of activations below 1e-5 and below 100, means over runs",
        refuted="1% or more below the one, and 99% or fewer below the other, to refute it wholly; one of the two, "
        "partly",
        study="vc.sparsity",
        parts=(
            part(sparsity.sparsity_at_threshold, Below(1), "below 1e-5", "%", digits=2, place=0),
            part(sparsity.sparsity_at_threshold, Above(99), "below 100", "%", digits=2, place=-1),
        ),
        readings=("up to 1%", "exactly"),
        covers=("appendix A.2", "figure 17"),
        figure="vc17",
        meaning="some units would be off, or very large",
    ),
    Claim(
        name="VC.figure17.less-sparse",
        source="VC appendix A.2 and figure 17, left",
        statement="For eps from 1e-3 to 10 successful models tend to have less sparse activations than failed ones.",
        measured=f"{AGAINST}; as many runs as the paper has, and all",
        refuted="no tendency, or one smaller than .3, in both parts, to refute it wholly; in one, partly",
        study="vc.sparsity",
        parts=(
            part(sparsity.success_sparsity, Below(0, 0.3), "20 runs", digits=2, runs=sparsity.PAPER_RUNS),
            part(sparsity.success_sparsity, Below(0, 0.3), "all runs", digits=2),
        ),
        readings=("in the mean over the range", "at every threshold of the range; see VC.figure17.whole-range"),
        covers=("appendix A.2", "figure 17"),
        figure="vc17",
        weight=2,
        meaning="sparsity would not go with success",
    ),
    Claim(
        name="VC.figure17.whole-range",
        source="VC appendix A.2",
        statement="Successful runs are less sparse at every threshold from .001 to 10.",
        measured="percentage of thresholds, evenly on a log scale from 1e-3 to 10, at which successes are less sparse, "
        "p < .05 for all thresholds at once by permutation",
        refuted="more than one threshold in ten at which they are shown to be sparser; one at which they are not shown "
        "to be less sparse, partly",
        study="vc.sparsity",
        parts=(part(sparsity.less_sparse_thresholds, Nearly(), "thresholds", "%"),),
        readings=("at each threshold", "somewhere in it"),
        covers=("appendix A.2", "figure 17"),
        figure="vc17",
        meaning="near 10, where hardly an activation is larger in any run, there is nothing to differ",
    ),
    Claim(
        name="VC.figure17.separation",
        source="VC appendix A.2 and figure 17, left",
        statement="Successes and failures are strikingly separate.",
        measured=AGAINST,
        refuted="-.8 or weaker, where one pair in ten is in the other order",
        study="vc.sparsity",
        parts=(part(sparsity.success_sparsity, Below(-0.8), "all runs", digits=2),),
        covers=("appendix A.2", "figure 17"),
        figure="vc17",
        meaning="they would overlap",
    ),
    Claim(
        name="VC.figure17.accuracy",
        source="VC appendix A.2 and figure 17, right",
        statement="Sparsity falls as performance rises.",
        measured=f"Spearman's correlation over runs of test accuracy with the {CURVE}; as many runs as the paper has, "
        "and all",
        refuted="no correlation, or one weaker than -.3, in both parts, to refute it wholly; in one, partly",
        study="vc.sparsity",
        parts=(
            part(sparsity.accuracy_sparsity, Below(0, 0.3), "20 runs", digits=2, runs=sparsity.PAPER_RUNS),
            part(sparsity.accuracy_sparsity, Below(0, 0.3), "all runs", digits=2),
        ),
        covers=("appendix A.2", "figure 17"),
        figure="vc17",
        meaning="only the two kinds of run would differ",
    ),
    Claim(
        name="VC.appA.2.many-neurons",
        source="VC appendix A.2, last sentence",
        statement="The task needs many neurons, and so activations that are not sparse.",
        measured="percentage of activations of successful runs that are above .1 in absolute value, mean over runs",
        refuted="half of them or fewer",
        study="vc.sparsity",
        parts=(part(sparsity.active_units, Above(50), "activations above .1", "%"),),
        readings=("successful networks use most of their neurons", "no network could do with few"),
        covers=("appendix A.2",),
        figure="vc17",
        meaning="few neurons would be enough",
    ),
    Claim(
        name="VC.figure20.less-sparse",
        source="VC appendix A.3 and figure 20",
        statement="With more dimensions, too, successful models have less sparse activations.",
        measured=f"{AGAINST}; of each dimension up to 8, from which on hardly a run fails",
        refuted="no tendency, or one smaller than .3, of all dimensions, to refute it wholly; of some, partly",
        study="vc.sparsity",
        parts=OTHERS,
        covers=("appendix A.3", "figure 20"),
        figure="vc20",
        meaning="it would be a matter of two dimensions",
    ),
)
