"""What VC and CH say of large models, of practice, and of their own tool: nothing that runs here could refute.

VC's introduction, conclusion and societal impact; what they say of this model itself stands with its subject.
"""

from analysis.reproduction.verification.claim import Claim

OTHER_MODELS = "about large models, which neither the paper nor this package trains"
LITERATURE = "what others have found or written, for which their works are cited"
HOPE = "a hope for what others will do with it"

VC_CLAIMS = (
    Claim(
        "VC.s1.scaling",
        "Models get better as they and their training sets grow, at a cost that makes ablations hard, so "
        "that how large models train is little understood.",
        untestable=f"{OTHER_MODELS}; {LITERATURE}",
        places="section 1",
    ),
    Claim(
        "VC.s1.cost-and-failure",
        "A better understanding of training limits failures at scale and saves memory, money and emissions.",
        untestable=OTHER_MODELS,
        places="section 1, societal impact",
    ),
    Claim(
        "VC.s1.small-for-large",
        "What is seen in a small model that can be drawn whole helps to understand large ones.",
        untestable=OTHER_MODELS,
        places="abstract, section 1",
    ),
    Claim(
        "VC.s1.sandbox",
        "A sandbox is provided that draws every layer of the model and makes films of its training, and its "
        "code is to be published.",
        untestable="about a piece of software and not about training; what it shows is drawn here by "
        "`analysis.film` and `analysis.explore`",
        places="abstract, section 1",
    ),
    Claim(
        "VC.s1.for-theory-and-practice",
        "Theorists may find theorems with it, and practitioners ideas, such as for optimisers.",
        untestable=HOPE,
        places="abstract, section 1",
    ),
    Claim(
        "VC.s1.related-work",
        "Precise ablations of circuits are made in small settings, low dimensions avoid the curse of "
        "dimensionality, and theories of training simplify what happens in practice.",
        untestable=LITERATURE,
        places="section 1",
    ),
    Claim(
        "VC.conclusion.efficient-training",
        "The findings could lead to more efficient and steadier training.",
        untestable=OTHER_MODELS,
        places="conclusion",
    ),
    Claim(
        "VC.conclusion.future",
        "The insights will be applied to larger models, and the tool extended to more dimensions.",
        untestable="what is planned",
        places="conclusion",
    ),
)

CH_CLAIMS = (
    Claim(
        "CH.summary.guidance",
        "The findings help to understand and steady the training of larger transformers, and call for "
        "theorems on learning in two stages and on transfer.",
        untestable=f"{OTHER_MODELS}; {HOPE}",
        places="summary",
    ),
)

CLAIMS = (*VC_CLAIMS, *CH_CLAIMS)
