"""Statements of CA that cannot be tested: definitions, other papers' results, opinions
and outlooks."""

from analysis.reproduction.verification.claim import Claim

STATEMENTS = {
    "CA.s1.earlier": (
        "Earlier work found circular structures and phases of training.",
        "about other papers",
    ),
    "CA.s1.use": (
        "Understanding training makes networks safer, more accurate and cheaper.",
        "an outlook",
    ),
    "CA.s2.demo": (
        "An interactive demo shows training and particles.",
        "about a web page",
    ),
    "CA.s3.model": (
        (
            "A network of two embeddings and one hidden layer is trained by AdamW on"
            " 80% of all pairs in full batches."
        ),
        "a definition, which this package implements",
    ),
    "CA.s4.earlier": (
        "Circles and grids agree with earlier findings.",
        "about other papers' networks",
    ),
    "CA.s5.1.fixed": (
        (
            "Gradient descent updates each parameter as if all others were fixed:"
            " classifier and embeddings evolve to fit."
        ),
        "the first half defines a gradient, the second is an interpretation",
    ),
    "CA.s5.2.useful": (
        "A pair sum's output is largest if the weight vector is aligned with it.",
        "an argument",
    ),
    "CA.s6.method": (
        (
            "17 particles start at random and move along the sum of the forces for 100"
            " steps, at constant variance."
        ),
        "a definition that leaves choices open, whose effect OWN.sensitivity measures",
    ),
    "CA.s7.link": (
        "Regularising one layer enables another layer to train.",
        "about other networks",
    ),
    "CA.s7.traditional": (
        "Weight decay was first seen as a penalty.",
        "about other papers",
    ),
    "CA.s8.outlook": (
        (
            "The explanation has no proof, is about a very simple network, and suggests"
            " studies of others."
        ),
        "an outlook and a caution",
    ),
    "CA.appA.imperfections": (
        (
            "In a perfect grid the sums of pairs form a grid in which pairs of equal"
            " modular sum lie together."
        ),
        (
            "a property of the definition of a perfect grid, and the reason for"
            " algorithm 2"
        ),
    ),
    "CA.compute.day": (
        (
            "The study took 271 hours on a cloud machine with one T4; a replication"
            " takes less than 24 hours."
        ),
        (
            "the 271 hours are of another machine. The second number holds in effect:"
            " the default run of analysis.verify simulates more than the paper's runs,"
            " in less than three hours on two cores"
        ),
    ),
}
"""Statements, with the reason why they are not tested."""

PLACES = {
    "CA.s8.outlook": "section 8, limitations, broader impact",
    "CA.appA.imperfections": "appendix A.2",
    "CA.compute.day": "compute resources",
}

CLAIMS = tuple(
    Claim(name, statement, untestable=reason, places=PLACES.get(name, ""))
    for name, (statement, reason) in STATEMENTS.items()
)
