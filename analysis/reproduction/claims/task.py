"""VC section 2 and appendix A.3: the task, the network, and how many dimensions it takes."""

from analysis.reproduction.odonnat2024 import circuits, dimensions
from analysis.reproduction.odonnat2024 import ideal_circuits as ideal
from analysis.reproduction.verification.claim import Claim, Measurement, part
from analysis.reproduction.verification.criteria import Above, Below, Every, Nearly

RECIPE = "networks of d = 2 at the end of the default recipe"


def _broken_invariance(name: str, vocab: int, label: str) -> Measurement:
    """How far circuits built by hand, of any dimension, lack an invariance."""
    return part(ideal.worst_construction, Below(0.01), label, digits=4, name=name, vocab=vocab, dim=None)


CLAIMS = (
    Claim(
        "VC.s2.setting",
        "Sequences of 12 tokens of which the first five are summed modulo 2 or 3; a transformer of one layer "
        "with one query, normalised embeddings, a feed-forward layer with GELU, tied output; cross-entropy, accuracy; "
        "2048 sequences drawn with replacement, Adam with .9 and .999, torch's default first weights.",
        places="section 2, section 2.1, section 2.2",
        untestable="definitions, and not findings: they are the default settings here. The paper normalises to length "
        "1 and has no output bias, its authors' code normalises to root mean square 1 and has one; the code's form is "
        "the default, the paper's an option (--norm unit --no-output-bias)",
    ),
    Claim(
        "VC.s2.1.variety",
        "The task is simple and yet shows a variety of training behaviours.",
        f"percentage of pairs of successful {RECIPE} that encode different sums of the tokens",
        experiment="vc.circuits",
        parts=(part(circuits.different_sums, Above(50), "pairs of successful runs", "%"),),
        readings=("successful runs end with different solutions", "runs differ in when they learn, and whether"),
        places="section 2.1",
        meaning="there would be little to look at",
    ),
    Claim(
        "VC.s2.2.keys-and-outputs",
        "Key and output matrices would add parameters and nothing that could not be expressed without them.",
        "percentage of random networks of p = 2 and 3 whose sequence embeddings with random key and output "
        "matrices a network without any has as well, up to rounding (a billionth of their size)",
        experiment="vc.ideal",
        parts=(
            part(ideal.networks_within_bound, Every(), "the same without", "%", name="absorbed", up_to=ideal.BROKEN),
        ),
        places="section 2.2",
        meaning="the architecture would be less expressive than the usual one",
    ),
    Claim(
        "VC.s2.3.panels",
        "Films of the training show positions, embeddings, attention, values, sequence embeddings, level "
        "lines, receptors and assemblers, loss and accuracy, with the shapes and colours that are listed.",
        places="section 2.3",
        untestable="what is drawn, and not a finding; `analysis.frame` and `analysis.film` draw the same panels",
    ),
    Claim(
        "VC.s2.3.ideal-collapse",
        "Ideally all spurious positions coincide, and all others do.",
        "in circuits built by hand in this way, with p = 2 and 3, d = 2 and 3 and every norm: the largest "
        "share of the variance of sequence embeddings that a spurious token makes, and the order of two others, in the "
        "circuit in which it is largest",
        experiment="vc.ideal",
        parts=(
            _broken_invariance("leak", 2, "spurious tokens, p = 2"),
            _broken_invariance("unswapped", 2, "order, p = 2"),
            _broken_invariance("leak", 3, "spurious tokens, p = 3"),
            _broken_invariance("unswapped", 3, "order, p = 3"),
        ),
        places="section 2.3",
        figure="vc1",
        meaning="coinciding positions would not give the invariances",
    ),
    Claim(
        "VC.appA.2.difficult",
        "The task is hard to learn with two dimensions, so that an accuracy above .9 is a success.",
        f"percentage of {RECIPE} that are not above .9",
        experiment="vc.circuits",
        parts=(part(circuits.failed_runs, Above(10), "runs that fail", "%"),),
        places="appendix A.2, appendix A.3, section 1",
        figure="vc17",
        meaning="success would tell nothing",
    ),
    Claim(
        "VC.appA.3.dimension",
        "The higher the dimension of the embeddings, the more models succeed.",
        "Spearman's correlation of d, from 2 to 32, with whether a run is above .9 test accuracy at the end, "
        "over as many runs of each",
        experiment="vc.dimensions",
        parts=(part(dimensions.dimension_correlation, Above(0, 0.1), "rank correlation", digits=2),),
        places="appendix A.3, figure 20",
        figure="vc20",
        importance=2,
        meaning="two dimensions would be no harder than more",
    ),
    Claim(
        "VC.appA.3.all-from-8",
        "From d = 8 on all models are above .9.",
        "percentage of runs above .9 test accuracy at the end (the paper's figure has 20 of each d)",
        experiment="vc.dimensions",
        parts=(
            part(dimensions.success_at_dim, Nearly(), "d = 8", "%", dim=8),
            part(dimensions.success_at_dim, Nearly(), "d = 16", "%", dim=16),
            part(dimensions.success_at_dim, Nearly(), "d = 32", "%", dim=32),
        ),
        readings=("every run of those dimensions succeeds", "the twenty runs of each that the paper made did"),
        places="appendix A.3, figure 20",
        figure="vc20",
        importance=2,
        meaning="some runs fail at any dimension, so that failure is not a matter of two dimensions alone",
    ),
    Claim(
        "VC.appA.3.expressiveness",
        "Embeddings of two dimensions limit how much the model can express, which is why fewer succeed.",
        places="appendix A.3, section 1",
        figure="vc20",
        untestable="no measure of what a model can express is named, so that why more runs succeed is not told. That "
        "more do, is VC.appA.3.dimension; that a solution can be expressed in two dimensions, which the paper's own "
        "runs show as well, is VC.figure1.classes and OWN.two-dimensions-suffice",
    ),
    Claim(
        "VC.appA.3.generalisation",
        "Embeddings of two dimensions limit how well the model generalises.",
        f"accuracy on training sequences less that on unseen ones, in points, mean over {RECIPE}; and how "
        "many points more of the runs succeed from d = 8 on",
        experiment="vc.dimensions",
        parts=(
            part(dimensions.generalisation_gap, Above(0, 2), "train less unseen, d = 2", "points"),
            part(dimensions.success_gain, Above(0, 10), "successes, d from 8 less d = 2", "points"),
        ),
        readings=("what is learned does not carry over to unseen data", "fewer models learn what carries over"),
        places="appendix A.3",
        figure="vc20",
        meaning="networks of two dimensions that fit their data also get the unseen sequences right: they fail on both "
        "or on neither",
    ),
)
