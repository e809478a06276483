"""Statements of CA that cannot be tested: definitions, other papers' results, opinions and outlooks."""

from analysis.reproduction.verification.claim import Claim

CLAIMS = (
    Claim(
        "CA.s1.earlier", "Earlier work found circular structures and phases of training.", untestable="of other papers"
    ),
    Claim(
        "CA.s1.use", "Understanding training makes networks safer, more accurate and cheaper.", untestable="an outlook"
    ),
    Claim("CA.s2.demo", "An interactive demo shows training and particles.", untestable="about a web page"),
    Claim(
        "CA.s3.model",
        "A network of two embeddings and one hidden layer is trained by AdamW on 80% of all pairs in full batches.",
        untestable="a definition, which this package implements",
    ),
    Claim("CA.s4.earlier", "Circles and grids agree with earlier findings.", untestable="about other papers' networks"),
    Claim(
        "CA.s5.1.fixed",
        "Gradient descent updates each parameter as if all others were fixed: classifier and embeddings evolve to fit.",
        untestable="the first half defines a gradient, the second is an interpretation",
    ),
    Claim(
        "CA.s5.2.useful",
        "A weight vector aligned with a pair sum is most useful: it gives that pair sum the largest output.",
        untestable="an argument",
    ),
    Claim(
        "CA.s6.method",
        "17 particles start at random and move along the sum of the forces for 100 steps, at constant variance.",
        untestable="a definition that leaves choices open, whose effect OWN.sensitivity measures",
    ),
    Claim("CA.s7.link", "Regularising one layer enables another layer to train.", untestable="about other networks"),
    Claim("CA.s7.traditional", "Weight decay was first seen as a penalty.", untestable="about other papers"),
    Claim(
        "CA.s8.outlook",
        "The explanation has no proof, is about a very simple network, and suggests studies of others.",
        untestable="an outlook and a caution",
        places="section 8, limitations, broader impact",
    ),
    Claim(
        "CA.appA.imperfections",
        "In a perfect grid the sums of pairs form a grid in which pairs of equal modular sum lie together.",
        untestable="a property of the definition of a perfect grid, and the reason for algorithm 2",
        places="appendix A.2",
    ),
    Claim(
        "CA.compute.day",
        "The study took 271 hours on a cloud machine with one T4; a replication takes less than 24 hours.",
        untestable="the 271 hours are of another machine. The second number holds in effect: the default run of "
        "analysis.verify simulates more than the paper's runs, in less than three hours on two cores",
        places="compute resources",
    ),
)
