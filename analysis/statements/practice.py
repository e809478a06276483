"""What VC and CH say of large models, of practice, and of their own tool: nothing that runs here could refute.

VC's introduction, conclusion and societal impact; what they say of this model itself stands with its subject.
"""

from analysis.verification.claim import Claim

OTHER_MODELS = "about large models, which neither the paper nor this package trains"
LITERATURE = "what others have found or written, for which their works are cited"
HOPE = "a hope for what others will do with it"

VC_CLAIMS = (
    Claim(
        name="VC.s1.scaling",
        source="VC section 1, first paragraph",
        statement="Models get better as they and their training sets grow, at a cost that makes ablations hard, so "
        "that how large models train is little understood.",
        covers=("section 1",),
        untestable=f"{OTHER_MODELS}; {LITERATURE}",
    ),
    Claim(
        name="VC.s1.cost-and-failure",
        source="VC section 1, second paragraph; societal impact",
        statement="A better understanding of training limits failures at scale and saves memory, money and emissions.",
        covers=("section 1", "societal impact"),
        untestable=OTHER_MODELS,
    ),
    Claim(
        name="VC.s1.small-for-large",
        source="VC abstract; section 1, second and third paragraph",
        statement="What is seen in a small model that can be drawn whole helps to understand large ones.",
        covers=("abstract", "section 1"),
        untestable=OTHER_MODELS,
    ),
    Claim(
        name="VC.s1.sandbox",
        source="VC abstract; section 1, contributions",
        statement="A sandbox is provided that draws every layer of the model and makes films of its training, and its "
        "code is to be published.",
        covers=("abstract", "section 1"),
        untestable="about a piece of software and not about training; what it shows is drawn here by "
        "`analysis.film` and `analysis.explore`",
    ),
    Claim(
        name="VC.s1.for-theory-and-practice",
        source="VC abstract; section 1, third paragraph and summary",
        statement="Theorists may find theorems with it, and practitioners ideas, such as for optimisers.",
        covers=("abstract", "section 1"),
        untestable=HOPE,
    ),
    Claim(
        name="VC.s1.related-work",
        source="VC section 1, related work",
        statement="Precise ablations of circuits are made in small settings, low dimensions avoid the curse of "
        "dimensionality, and theories of training simplify what happens in practice.",
        covers=("section 1",),
        untestable=LITERATURE,
    ),
    Claim(
        name="VC.conclusion.efficient-training",
        source="VC conclusion, first and second paragraph",
        statement="The findings could lead to more efficient and steadier training.",
        covers=("conclusion",),
        untestable=OTHER_MODELS,
    ),
    Claim(
        name="VC.conclusion.future",
        source="VC conclusion, last sentence",
        statement="The insights will be applied to larger models, and the tool extended to more dimensions.",
        covers=("conclusion",),
        untestable="what is planned",
    ),
)

CH_CLAIMS = (
    Claim(
        name="CH.summary.guidance",
        source="CH, summary, last sentence",
        statement="The findings help to understand and steady the training of larger transformers, and call for "
        "theorems on learning in two stages and on transfer.",
        covers=("summary",),
        untestable=f"{OTHER_MODELS}; {HOPE}",
    ),
)

CLAIMS = (*VC_CLAIMS, *CH_CLAIMS)
