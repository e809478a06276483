"""What VC and CH state about their setting, their tool, other models and their use:
these networks cannot test it."""

from analysis.reproduction.verification.claim import Claim

OTHER_MODELS = "about large models, which neither the paper nor this package trains"

STATEMENTS = {
    OTHER_MODELS: {
        "VC.s1.cost-and-failure": (
            "Better understanding of training limits failures and saves memory and"
            " cost."
        ),
        "VC.s1.small-for-large": (
            "Observations on a small model that can be drawn help to understand large"
            " ones."
        ),
        "VC.conclusion.efficient-training": (
            "The findings could lead to more efficient and more stable training."
        ),
    },
    f"{OTHER_MODELS}; results of other papers, which are cited": {
        "VC.s1.scaling": (
            "Models improve with their size and training set, at a cost that makes"
            " ablations difficult."
        ),
        "VC.s1.related-work": (
            "Ablations of circuits need small settings, and theories simplify training."
        ),
        "VC.appA.2.literature": (
            "Sparsity matters in many fields, and trained transformers have sparse"
            " activations."
        ),
    },
    "an expectation or a plan, not a finding": {
        "CH.summary.guidance": (
            "The findings help to understand and stabilise large models, and call for"
            " theorems."
        ),
        "VC.s1.for-theory-and-practice": (
            "Theorists may find theorems with it, and practitioners ideas for"
            " optimisers."
        ),
        "VC.conclusion.future": (
            "The insights will be applied to larger models, and the tool to more"
            " dimensions."
        ),
    },
    "a hypothesis on large models without an experiment in the paper; see VC.s4.2.curriculum": {
        "VC.s4.2.data-curation": (
            "Careful choice of data matters for very large models by the same"
            " mechanism."
        ),
    },
    "about software; `analysis.frame`, `analysis.film` and `analysis.explore` draw the same": {
        "VC.s1.sandbox": (
            "A sandbox draws every layer of the model and makes films of its training."
        ),
        "CH.abstract.sandbox": (
            "The task and a sandbox that draws every layer are introduced."
        ),
        "VC.s2.3.panels": (
            "The films show embeddings, attention, values, level lines, MLP weights,"
            " loss and accuracy."
        ),
    },
    "a definition, which is used here; VC.appA.3.dimension tests how the accuracy depends on the dimension": {
        "VC.appA.2.difficult": (
            "The task is difficult in two dimensions, so that an accuracy above .9 is a"
            " success."
        ),
    },
    "the absence of any regularity cannot be tested; OWN.sum is a regularity that we find": {
        "VC.s3.2.no-geometry": (
            "The learned circuits have no particularly striking geometric structure."
        ),
    },
    "no measure of expressiveness is named; a solution in two dimensions exists (OWN.two-dimensions-suffice)": {
        "VC.appA.3.expressiveness": (
            "Two-dimensional embeddings limit what the model can express."
        ),
    },
    "only their titles, or nothing, are known here": {
        "CH.summary.remarks": (
            "Remarks on practice, what lies beyond stationary points and other"
            " pathways; proofs."
        ),
        "CH.summary.more-figures": "Twelve more figures, 6 to 17.",
    },
}
"""Statements by the reason why they are not tested."""

CLAIMS = (
    Claim(
        "VC.s2.setting",
        "Sequences of 12 tokens, of which the first five (non-spurious) are summed"
        " modulo 2 or 3; a one-layer transformer with a query, normalised embeddings, a"
        " GELU MLP and tied output; 2048 sequences drawn with replacement; Adam with .9"
        " and .999; torch's default initial weights.",
        places="section 2, section 2.1, section 2.2",
        untestable=(
            "definitions, which are the defaults here. The authors' code differs from"
            " the paper: it normalises to root mean square 1 and has an output bias."
            " The code's form is the default, the paper's an option"
        ),
    ),
    *(
        Claim(name, statement, untestable=reason)
        for reason, statements in STATEMENTS.items()
        for name, statement in statements.items()
    ),
)
