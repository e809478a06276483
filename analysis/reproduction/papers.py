"""The papers: where they are, the words that a reader needs, and what they state that
nobody can test here."""

from collections.abc import Iterable
from typing import NamedTuple


class Paper(NamedTuple):
    """A paper, or our own results."""

    short: str
    """The first word in the names of its claims"""
    title: str
    authors: str = ""
    """Empty for our own results"""
    address: str = ""
    introduction: str = ""
    """The terms that the report needs, in Markdown"""
    not_testable: tuple[str, ...] = ()
    """Statements that cannot be tested here, each with its place and the reason"""


CA = Paper(
    "CA",
    "Clustering and Alignment: Understanding the Training Dynamics in Modular Addition",
    "Musat",
    "https://arxiv.org/abs/2408.09414",
    """A network with one hidden layer learns (a + b) mod 17; each token has a trained
embedding in the plane. A *pair sum* is the sum of two embeddings. In a *circle* all
embeddings have nearly the same length; in a *grid* they form arithmetic progressions;
an *imperfection* is a pair sum whose nearest other pair sum has another modular sum.
The second model is of 17 particles with an alignment force of strength fₐ and no
network.""",
    (
        "Sections 1, 2, 8 and the abstract: motivation, related work, summaries.",
        "Section 3 and appendix A.2: definitions, which this package uses.",
        "Section 5.1, gradient descent updates each parameter as if the others were"
        " fixed: an interpretation.",
        "Section 5.2, the output is largest if weights and pair sum align: an argument"
        " about one unit.",
        "Compute resources: hours on another machine.",
    ),
)
VC = Paper(
    "VC",
    "A Visual Case Study of the Training Dynamics in Neural Networks",
    "Odonnat, Bouaziz, Cabannes",
    "https://arxiv.org/abs/2410.24050",
    """A one-layer transformer with embeddings in the plane learns the sum, modulo p, of
the first five of 12 tokens (the *non-spurious* tokens; the others are *spurious*).
Attention maps a sequence to its *sequence embedding* ξ, from which an MLP finds the
class.""",
    (
        "Sections 1, 5 and the abstract: motivation, related work, large models,"
        " outlook.",
        "Sections 2.1 to 2.3: definitions of task, network and films. The authors' code"
        " normalises to root mean square 1 and has an output bias; it is the default"
        " here, and the paper's form is an option.",
        "Section 3.2, no striking geometric structure: the absence of every regularity"
        " cannot be tested. Circuits that lack most invariances and generalise: the"
        " paper shows one; there is none among our runs, which contradicts nothing.",
        "Section 4.1, the variable time of the first drop, and the second drop soon after"
        " it: not judged.",
        "Section 4.1, saddles and hierarchical learning agree with theory: about other"
        " models.",
        "Section 4.2, data matters for very large models: without an experiment.",
        "Section 4.3, relation to the edge of stability, remedies at scale: without a"
        " statement on this model.",
        "Appendix A.1, Hessians may give insight: a hope.",
        "Appendix A.3, two dimensions limit what the model can express: no measure of"
        " it is named.",
    ),
)
CH = Paper(
    "CH",
    "Clustering Head: A Visual Case Study of the Training Dynamics in Transformers",
    "Odonnat, Bouaziz, Cabannes",
    "https://arxiv.org/abs/2410.24050",
    "The later version of VC. Only a web page's summary of it, which is not in the"
    " authors' words, and some captions are known here.",
    (
        "Remarks 3.1 to 3.3 and figures 6 to 17: only titles, or nothing, are known here.",
    ),
)
ZL = Paper(
    "ZL",
    "The Clock and the Pizza: Two Stories in Mechanistic Explanation of Neural Networks",
    "Zhong, Liu, Tegmark, Andreas",
    "https://arxiv.org/abs/2306.17844",
    """A one-layer transformer learns (a + b) mod 59. The attention rate α is 0 for
constant attention and 1 for softmax attention. What the paper says of two models, of
the attention rate and of its public table of runs is tested.""",
    ("Other architectures, depths and tasks: not trained here.",),
)
NA = Paper(
    "NA",
    "Progress measures for grokking via mechanistic interpretability",
    "Nanda, Chan, Lieberum, Smith, Steinhardt",
    "https://arxiv.org/abs/2301.05217",
    """A one-layer transformer learns (a + b) mod p and generalises long after it has
memorised. What the paper says of the delay, of the phases and of weight decay is
tested.""",
    (
        "Section 5.2, memorisation ends at epoch 1,400 and circuit formation at 9,400: one"
        " printed run and five of ours cannot tell whether 4,700 is a difference.",
        "Section 5.3, limited data are necessary for grokking, too: only one share of"
        " training pairs is used.",
        "Key frequencies, and reverse engineering of the weights: about one run.",
    ),
)
OWN = Paper("OWN", "Our own results")
PAPERS = {paper.short: paper for paper in (CA, VC, CH, ZL, NA, OWN)}
"""By their abbreviation."""


def count_papers(papers: Iterable[Paper]) -> int:
    """The number of papers. Versions of a paper have the same address and count once."""
    return len({paper.address for paper in papers if paper.address})
