"""Statements of CA that cannot be tested: definitions, other papers' results, opinions and outlooks."""

from analysis.reproduction.verification.claim import Claim

CLAIMS = (
    Claim(
        "CA.s1.earlier",
        "Earlier work found circular structures, progress measures and phases of training, and modelled embeddings as "
        "particles to explain phase transitions.",
        untestable="about other papers, models and tasks",
    ),
    Claim(
        "CA.s1.use",
        "Understanding training dynamics helps to make networks safer, more accurate and cheaper.",
        untestable="an outlook without a measured quantity",
    ),
    Claim(
        "CA.s2.demo",
        "An interactive demo shows training and particles.",
        untestable="about a web page; the explorer of this package shows the same",
    ),
    Claim(
        "CA.s3.model",
        "The network adds two embeddings and classifies the sum with one hidden layer. It is trained by AdamW on 80% "
        "of all pairs in full batches.",
        untestable="a definition, which this package implements",
    ),
    Claim(
        "CA.s4.earlier",
        "Circles and grids agree with earlier findings on networks that learn modular addition.",
        untestable="about other papers' networks",
    ),
    Claim(
        "CA.s6.method",
        "17 particles start at random positions and move in small steps along the sum of the forces, without momentum "
        "and with constant variance and zero mean, for 100 steps.",
        untestable="a definition that leaves choices open, whose effect OWN.sensitivity measures",
    ),
    Claim(
        "CA.s8.outlook",
        "The explanation has no proof, is about a very simple network, and suggests studies of others.",
        untestable="an outlook and a caution without a measured quantity",
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
        "The study took 271 hours on a cloud machine with one T4; a replication of networks and particles takes less "
        "than 24 hours.",
        untestable="the 271 hours are of another machine. The second number holds in effect: the default run of "
        "analysis.verify trains and simulates more than the paper's runs, in less than three hours on two cores",
        places="compute resources",
    ),
)
