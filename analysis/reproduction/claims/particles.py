"""CA section 6, table 2, figure 5 and appendix D: particles under three forces, beside the networks."""

from analysis.reproduction.claims.networks import KINDS, STRUCTURED, end_state_part
from analysis.reproduction.musat2024 import particles, structures
from analysis.reproduction.own.sensitivity import MARGINS, PRINTED
from analysis.reproduction.verification.claim import Claim, part
from analysis.reproduction.verification.criteria import Above, Agrees, Exists, Within
from analysis.reproduction.verification.estimate import ReportedNumber

OPEN = (
    "all 153 pairs, the repulsion of unlike pairs scaled at every step to the summed size of the attraction, alignment "
    "by the ratio of pair counts, steps of 0.003 times the force, one overall standard deviation",
    "the same, with the standard deviation kept per axis",
    "both forces of unlike pairs scaled by the ratio of counts, variance per axis, steps of fixed length",
)


def _table_2_row(fa: float, circles: ReportedNumber, imperfections: ReportedNumber) -> Claim:
    """A row of the table."""
    return Claim(
        f"CA.table2.fa{fa:g}",
        f"Of 100 simulations with f_a = {fa:g} {circles.printed.split()[0]} become circles, the others "
        f"grids, with {imperfections.printed} imperfections in the mean.",
        "structures of N = 17 particles in the plane at the end, by the algorithms of CA appendix A; "
        "imperfections over those that are not circles",
        experiment="ca.table2",
        parts=(
            part(particles.particle_circles, Agrees(circles, MARGINS[0]), "circles", "%", fa=fa),
            part(particles.particle_imperfections, Agrees(imperfections, MARGINS[1]), "imperfections", fa=fa),
        ),
        readings=OPEN,
        places="table 2, section 6",
        figure="ca-d",
        importance=3,
        meaning="the forces, read as they are here, would not account for the structures as often as the paper finds",
    )


ROWS = tuple(_table_2_row(fa, *numbers) for fa, numbers in PRINTED.items())

PAIRED = ("f_a = 1 beside weight decay 1, which have about as many circles", "f_a = 1 beside weight decay 0.6")

STRUCTURES = (
    Claim(
        "CA.s6.structures",
        "Under these forces alone particles arrange themselves in the structures of the embeddings.",
        "share of simulations with f_a = 1, 0.5 and 2 that end as circles or near a lattice, with holes or "
        "without, by the same measures as networks",
        experiment="ca.structures",
        parts=tuple(end_state_part("particle", fa, STRUCTURED, Above(50), f"f_a = {fa:g}") for fa in (1.0, 0.5, 2.0)),
        readings=(
            *KINDS,
            "that the formulae account for each network's own course and end, which OWN.audit and OWN.sequence ask",
        ),
        places="abstract, section 2, section 6, appendix D",
        figure="ca5",
        importance=3,
        meaning="the formulae would not be enough to make grids and circles",
    ),
    Claim(
        "CA.figure5.three",
        "Particles form circles, grids and imperfect grids.",
        "share of each among simulations with f_a = 1; that there are any is what is claimed",
        experiment="ca.structures",
        parts=tuple(end_state_part("particle", 1.0, (kind,), Exists(), f"{kind}s") for kind in STRUCTURED),
        readings=KINDS,
        places="figure 5, appendix D, section 6",
        figure="ca5",
        importance=2,
        meaning="particles would not show all that embeddings do",
    ),
    Claim(
        "CA.s6.as-networks",
        "Circles are as frequent among particles as among networks, and grids have as many imperfections.",
        "share of circles among simulations with f_a = 1 less that among networks with weight decay 1, and "
        "the same of the mean imperfections of the others, both simulated here",
        experiment="ca.structures",
        parts=(
            part(structures.circle_difference, Within(-10, 10), "circles", "points", fa=1.0, decay=1.0),
            part(structures.imperfection_difference, Within(-10, 10), "imperfections", fa=1.0, decay=1.0),
        ),
        readings=PAIRED,
        places="section 6, section 8, table 1, table 2",
        figure="ca5",
        importance=3,
        meaning="the particle simulation would be no evidence that its forces are those of the network",
    ),
    Claim(
        "CA.s6.more-circles",
        "The larger f_a is, the more circles there are.",
        "difference of the shares of circles from row to row of table 2",
        experiment="ca.structures",
        parts=(
            part(structures.particle_circle_change, Above(0, 5), "f_a = 1 less 0.5", "points", high=1.0, low=0.5),
            part(structures.particle_circle_change, Above(0, 5), "f_a = 2 less 1", "points", high=2.0, low=1.0),
        ),
        places="section 6, table 2, appendix D",
        figure="ca-d",
        importance=3,
        meaning="circles would not come from alignment",
    ),
    Claim(
        "CA.s6.method",
        "Seventeen particles start at random, move by small steps along the sum of the forces without momentum, and "
        "keep a constant variance and a mean of zero for 100 steps.",
        untestable="a definition that leaves choices open; OWN.sensitivity says what they change",
        places="section 6",
    ),
)

CLAIMS = (*ROWS, *STRUCTURES)
