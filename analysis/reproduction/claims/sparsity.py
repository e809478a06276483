"""VC appendix A.2, figures 17 and 20: sparsity of hidden activations."""

from analysis.reproduction.odonnat2024 import sparsity
from analysis.reproduction.verification.claim import Claim, part
from analysis.reproduction.verification.criteria import Above, Below, Nearly

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
        "VC.appA.2.literature",
        "Sparsity matters in many fields, trained transformers have sparse activations, the more so the "
        "deeper they are; sparsity is measured as the share of activations below eps, since GELU has no exact zeros.",
        places="appendix A.2",
        untestable="what others have found in other models, and a definition, which is the one used here",
    ),
    Claim(
        "VC.figure17.range",
        "From eps = 1e-5 to 100 sparsity goes from none to all.",
        "percentage of activations below 1e-5 and below 100, means over runs",
        experiment="vc.sparsity",
        parts=(
            part(sparsity.sparsity_at_threshold, Below(1), "below 1e-5", "%", digits=2, place=0),
            part(sparsity.sparsity_at_threshold, Above(99), "below 100", "%", digits=2, place=-1),
        ),
        readings=("up to 1%", "exactly"),
        places="appendix A.2, figure 17",
        figure="vc17",
        meaning="some units would be off, or very large",
    ),
    Claim(
        "VC.figure17.less-sparse",
        "For eps from 1e-3 to 10 successful models tend to have less sparse activations than failed ones.",
        f"{AGAINST}; as many runs as the paper has, and all",
        experiment="vc.sparsity",
        parts=(
            part(sparsity.success_sparsity, Below(0, 0.3), "20 runs", digits=2, runs=sparsity.PAPER_RUNS),
            part(sparsity.success_sparsity, Below(0, 0.3), "all runs", digits=2),
        ),
        readings=("in the mean over the range", "at every threshold of the range; see VC.figure17.whole-range"),
        places="appendix A.2, figure 17",
        figure="vc17",
        importance=2,
        meaning="sparsity would not go with success",
    ),
    Claim(
        "VC.figure17.whole-range",
        "Successful runs are less sparse at every threshold from .001 to 10.",
        "percentage of thresholds, evenly on a log scale from 1e-3 to 10, at which successes are less sparse, "
        "p < .05 for all thresholds at once by permutation",
        experiment="vc.sparsity",
        parts=(part(sparsity.less_sparse_thresholds, Nearly(), "thresholds", "%"),),
        readings=("at each threshold", "somewhere in it"),
        places="appendix A.2, figure 17",
        figure="vc17",
        meaning="near 10, where hardly an activation is larger in any run, there is nothing to differ",
    ),
    Claim(
        "VC.figure17.separation",
        "Successes and failures are strikingly separate.",
        AGAINST,
        experiment="vc.sparsity",
        parts=(part(sparsity.success_sparsity, Below(-0.8), "all runs", digits=2),),
        places="appendix A.2, figure 17",
        figure="vc17",
        meaning="they would overlap",
    ),
    Claim(
        "VC.figure17.accuracy",
        "Sparsity falls as performance rises.",
        f"Spearman's correlation over runs of test accuracy with the {CURVE}; as many runs as the paper has, and all",
        experiment="vc.sparsity",
        parts=(
            part(sparsity.accuracy_sparsity, Below(0, 0.3), "20 runs", digits=2, runs=sparsity.PAPER_RUNS),
            part(sparsity.accuracy_sparsity, Below(0, 0.3), "all runs", digits=2),
        ),
        places="appendix A.2, figure 17",
        figure="vc17",
        meaning="only the two kinds of run would differ",
    ),
    Claim(
        "VC.appA.2.many-neurons",
        "The task needs many neurons, and so activations that are not sparse.",
        "percentage of activations of successful runs that are above .1 in absolute value, mean over runs",
        experiment="vc.sparsity",
        parts=(part(sparsity.active_units, Above(50), "activations above .1", "%"),),
        readings=("successful networks use most of their neurons", "no network could do with few"),
        places="appendix A.2",
        figure="vc17",
        meaning="few neurons would be enough",
    ),
    Claim(
        "VC.figure20.less-sparse",
        "With more dimensions, too, successful models have less sparse activations.",
        f"{AGAINST}; of each dimension up to 8, from which on hardly a run fails",
        experiment="vc.sparsity",
        parts=OTHERS,
        places="appendix A.3, figure 20",
        figure="vc20",
        meaning="it would be a matter of two dimensions",
    ),
)
