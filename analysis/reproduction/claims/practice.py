"""What VC and CH say of large models, of practice, and of their own tool: nothing that runs here could refute.

VC's introduction, conclusion and societal impact; what they say of this model itself stands with its subject.
"""

from analysis.reproduction.verification.claim import untested_claim

OTHER_MODELS = "about large models, which neither the paper nor this package trains"
LITERATURE = "what others have found or written, for which their works are cited"
HOPE = "a hope for what others will do with it"

VC_CLAIMS = (
    untested_claim(
        "VC.s1.scaling",
        "VC section 1, first paragraph",
        "Models get better as they and their training sets grow, at a cost that makes ablations hard, so "
        "that how large models train is little understood.",
        f"{OTHER_MODELS}; {LITERATURE}",
        "section 1",
    ),
    untested_claim(
        "VC.s1.cost-and-failure",
        "VC section 1, second paragraph; societal impact",
        "A better understanding of training limits failures at scale and saves memory, money and emissions.",
        OTHER_MODELS,
        "section 1",
        "societal impact",
    ),
    untested_claim(
        "VC.s1.small-for-large",
        "VC abstract; section 1, second and third paragraph",
        "What is seen in a small model that can be drawn whole helps to understand large ones.",
        OTHER_MODELS,
        "abstract",
        "section 1",
    ),
    untested_claim(
        "VC.s1.sandbox",
        "VC abstract; section 1, contributions",
        "A sandbox is provided that draws every layer of the model and makes films of its training, and its "
        "code is to be published.",
        "about a piece of software and not about training; what it shows is drawn here by "
        "`analysis.film` and `analysis.explore`",
        "abstract",
        "section 1",
    ),
    untested_claim(
        "VC.s1.for-theory-and-practice",
        "VC abstract; section 1, third paragraph and summary",
        "Theorists may find theorems with it, and practitioners ideas, such as for optimisers.",
        HOPE,
        "abstract",
        "section 1",
    ),
    untested_claim(
        "VC.s1.related-work",
        "VC section 1, related work",
        "Precise ablations of circuits are made in small settings, low dimensions avoid the curse of "
        "dimensionality, and theories of training simplify what happens in practice.",
        LITERATURE,
        "section 1",
    ),
    untested_claim(
        "VC.conclusion.efficient-training",
        "VC conclusion, first and second paragraph",
        "The findings could lead to more efficient and steadier training.",
        OTHER_MODELS,
        "conclusion",
    ),
    untested_claim(
        "VC.conclusion.future",
        "VC conclusion, last sentence",
        "The insights will be applied to larger models, and the tool extended to more dimensions.",
        "what is planned",
        "conclusion",
    ),
)

CH_CLAIMS = (
    untested_claim(
        "CH.summary.guidance",
        "CH, summary, last sentence",
        "The findings help to understand and steady the training of larger transformers, and call for "
        "theorems on learning in two stages and on transfer.",
        f"{OTHER_MODELS}; {HOPE}",
        "summary",
    ),
)

CLAIMS = (*VC_CLAIMS, *CH_CLAIMS)
