"""VC section 2 and appendix A.3: the task, the network, and how many dimensions it takes."""

from analysis.reproduction.experiments import circuits, dimensions, ideal
from analysis.reproduction.verification.claim import Claim, Measurement, part
from analysis.reproduction.verification.rules import Above, Below, Every, Nearly

RECIPE = "networks of d = 2 at the end of the default recipe"


def _broken_invariance(name: str, vocab: int, label: str) -> Measurement:
    """How far circuits built by hand, of any dimension, lack an invariance."""
    return part(ideal.worst_construction, Below(0.01), label, digits=4, name=name, vocab=vocab, dim=None)


CLAIMS = (
    Claim(
        name="VC.s2.setting",
        source="VC sections 2.1 and 2.2",
        statement="Sequences of 12 tokens of which the first five are summed modulo 2 or 3; a transformer of one layer "
        "with one query, normalised embeddings, a feed-forward layer with GELU, tied output; cross-entropy, accuracy; "
        "2048 sequences drawn with replacement, Adam with .9 and .999, torch's default first weights.",
        covers=("section 2", "section 2.1", "section 2.2"),
        untestable="definitions, and not findings: they are the default settings here. The paper normalises to length "
        "1 and has no output bias, its authors' code normalises to root mean square 1 and has one; the code's form is "
        "the default, the paper's an option (--norm unit --no-output-bias)",
    ),
    Claim(
        name="VC.s2.1.variety",
        source="VC section 2.1, last sentence",
        statement="The task is simple and yet shows a variety of training behaviours.",
        measured=f"percentage of pairs of successful {RECIPE} that encode different sums of the tokens",
        refuted="most pairs encode the same",
        study="vc.circuits",
        parts=(part(circuits.different_sums, Above(50), "pairs of successful runs", "%"),),
        readings=("successful runs end with different solutions", "runs differ in when they learn, and whether"),
        covers=("section 2.1",),
        meaning="there would be little to look at",
    ),
    Claim(
        name="VC.s2.2.keys-and-outputs",
        source="VC section 2.2, sentence embedding",
        statement="Key and output matrices would add parameters and nothing that could not be expressed without them.",
        measured="percentage of random networks of p = 2 and 3 whose sequence embeddings with random key and output "
        "matrices a network without any has as well, up to rounding (a billionth of their size)",
        refuted="one network of which it does not hold",
        study="vc.ideal",
        parts=(
            part(ideal.networks_within_bound, Every(), "the same without", "%", name="absorbed", up_to=ideal.BROKEN),
        ),
        covers=("section 2.2",),
        meaning="the architecture would be less expressive than the usual one",
    ),
    Claim(
        name="VC.s2.3.panels",
        source="VC section 2.3; figures 1 to 5",
        statement="Films of the training show positions, embeddings, attention, values, sequence embeddings, level "
        "lines, receptors and assemblers, loss and accuracy, with the shapes and colours that are listed.",
        covers=("section 2.3",),
        untestable="what is drawn, and not a finding; `analysis.frame` and `analysis.film` draw the same panels",
    ),
    Claim(
        name="VC.s2.3.ideal-collapse",
        source="VC section 2.3, position embeddings",
        statement="Ideally all spurious positions coincide, and all others do.",
        measured="in circuits built by hand in this way, with p = 2 and 3, d = 2 and 3 and every norm: the largest "
        "share of the variance of sequence embeddings that a spurious token makes, and the order of two others, in the "
        "circuit in which it is largest",
        refuted="a share of a hundredth or more, in all parts, to refute it wholly; in some, partly",
        study="vc.ideal",
        parts=(
            _broken_invariance("leak", 2, "spurious tokens, p = 2"),
            _broken_invariance("unswapped", 2, "order, p = 2"),
            _broken_invariance("leak", 3, "spurious tokens, p = 3"),
            _broken_invariance("unswapped", 3, "order, p = 3"),
        ),
        covers=("section 2.3",),
        figure="vc1",
        meaning="coinciding positions would not give the invariances",
    ),
    Claim(
        name="VC.appA.2.difficult",
        source="VC appendix A.2; appendix A.3; section 1, related work",
        statement="The task is hard to learn with two dimensions, so that an accuracy above .9 is a success.",
        measured=f"percentage of {RECIPE} that are not above .9",
        refuted="fewer than one in ten fail",
        study="vc.circuits",
        parts=(part(circuits.failed_runs, Above(10), "runs that fail", "%"),),
        covers=("appendix A.2", "appendix A.3", "section 1"),
        figure="vc17",
        meaning="success would tell nothing",
    ),
    Claim(
        name="VC.appA.3.dimension",
        source="VC appendix A.3 and figure 20",
        statement="The higher the dimension of the embeddings, the more models succeed.",
        measured="Spearman's correlation of d, from 2 to 32, with whether a run is above .9 test accuracy at the end, "
        "over as many runs of each",
        refuted="a correlation below .1",
        study="vc.dimensions",
        parts=(part(dimensions.dimension_correlation, Above(0, 0.1), "rank correlation", digits=2),),
        covers=("appendix A.3", "figure 20"),
        figure="vc20",
        weight=2,
        meaning="two dimensions would be no harder than more",
    ),
    Claim(
        name="VC.appA.3.all-from-8",
        source="VC appendix A.3 and figure 20",
        statement="From d = 8 on all models are above .9.",
        measured="percentage of runs above .9 test accuracy at the end (the paper's figure has 20 of each d)",
        refuted="more than one in ten that are not, for certain, in all parts, to refute it wholly; a single one, of "
        "any dimension, partly",
        study="vc.dimensions",
        parts=(
            part(dimensions.success_at_dim, Nearly(), "d = 8", "%", dim=8),
            part(dimensions.success_at_dim, Nearly(), "d = 16", "%", dim=16),
            part(dimensions.success_at_dim, Nearly(), "d = 32", "%", dim=32),
        ),
        readings=("every run of those dimensions succeeds", "the twenty runs of each that the paper made did"),
        covers=("appendix A.3", "figure 20"),
        figure="vc20",
        weight=2,
        meaning="some runs fail at any dimension, so that failure is not a matter of two dimensions alone",
    ),
    Claim(
        name="VC.appA.3.expressiveness",
        source="VC appendix A.3; section 1, related work",
        statement="Embeddings of two dimensions limit how much the model can express, which is why fewer succeed.",
        covers=("appendix A.3", "section 1"),
        figure="vc20",
        untestable="no measure of what a model can express is named, so that why more runs succeed is not told. That "
        "more do, is VC.appA.3.dimension; that a solution can be expressed in two dimensions, which the paper's own "
        "runs show as well, is VC.figure1.classes and OWN.two-dimensions-suffice",
    ),
    Claim(
        name="VC.appA.3.generalisation",
        source="VC appendix A.3",
        statement="Embeddings of two dimensions limit how well the model generalises.",
        measured=f"accuracy on training sequences less that on unseen ones, in points, mean over {RECIPE}; and how "
        "many points more of the runs succeed from d = 8 on",
        refuted="a gap below 2 points, and fewer than 10 points more, to refute it wholly; one of the two, partly",
        study="vc.dimensions",
        parts=(
            part(dimensions.generalisation_gap, Above(0, 2), "train less unseen, d = 2", "points"),
            part(dimensions.success_gain, Above(0, 10), "successes, d from 8 less d = 2", "points"),
        ),
        readings=("what is learned does not carry over to unseen data", "fewer models learn what carries over"),
        covers=("appendix A.3",),
        figure="vc20",
        meaning="networks of two dimensions that fit their data also get the unseen sequences right: they fail on both "
        "or on neither",
    ),
)
