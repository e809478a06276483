"""Beyond CA: how far its formulae reach, what its open choices change, and whether circles form in the same way."""

from functools import partial

from analysis.studies import forces, formation, sensitivity
from analysis.verification.claim import Claim, Part
from analysis.verification.rules import Above, Every, Within

FORMING = (20, 100)

CLAIMS = (
    Claim(
        name="OWN.audit",
        source="of our own, on CA section 2",
        statement="While structures form, the formulae of clustering and alignment together explain more than half of "
        "the true gradient of the embeddings.",
        measured="R² of the four fields, fitted frame by frame to -dL/dE over the training pairs without shift and "
        "change of size, of networks with weight decay 1 at epochs 20 and 100",
        refuted="an R² that is not above 0.5",
        study="ca.audit",
        parts=tuple(
            Part(partial(forces.explained, name="r_squared", decay=1.0, epoch=each), Above(0.5), f"epoch {each}",
                 digits=2)
            for each in FORMING
        ),
        readings=("the four fields, each with a weight of its own", "the law with its own constants, which has fewer"),
        weight=2,
        meaning="that particles end as networks do would not be because the forces on them are those of the network",
    ),
    Claim(
        name="OWN.audit-names",
        source="of our own, on CA section 2",
        statement="The formulae explain more of the true gradient than with tokens renamed at random, at every weight "
        "decay while structures form, and still at the end with weight decay 1.",
        measured="R² of the four fields less the mean R² with tokens renamed, at epochs 20 and 100 at each weight "
        "decay, and at the end",
        refuted="a gain that is not above 0, or that excludes 0.05",
        study="ca.audit",
        parts=(
            *(
                Part(partial(forces.beyond_renamed, decay=decay, epoch=each), Above(0, 0.05),
                     f"weight decay {decay:g}, epoch {each}", digits=2)
                for decay in forces.networks.DECAYS for each in FORMING
            ),
            Part(partial(forces.beyond_renamed, decay=1.0, epoch=2000), Above(0, 0.05), "weight decay 1, epoch 2000",
                 digits=2),
        ),
        meaning="any four fields would do as well as those of the paper",
    ),
    Claim(
        name="OWN.audit-decay",
        source="of our own, on CA section 7",
        statement="At the end of training the formulae explain more of the true gradient with weight decay than "
        "without.",
        measured="R² of the four fields beyond that with tokens renamed, at weight decay 1 less without, by seed",
        refuted="a difference that is not above 0, or that excludes 0.05",
        study="ca.audit",
        parts=(Part(partial(forces.by_decay, epoch=2000), Above(0, 0.05), "weight decay 1 less 0", digits=2),),
        meaning="weight decay would not be what keeps the forces at work",
    ),
    Claim(
        name="OWN.sensitivity",
        source="of our own, on CA section 6 and table 2",
        statement="Table 2 does not depend on the choices that the paper leaves open.",
        measured="each of twelve choices changed alone from the defaults, 300 simulations a row: whether all six "
        "numbers stay within the paper's 95% intervals",
        refuted="a choice under which a number leaves them; in more than one of ten for certain, to refute it wholly",
        study="own.sensitivity",
        parts=(Part(sensitivity.within, Every(), "readings with all six numbers within", "%"),),
        readings=(
            "within the paper's intervals, exact binomial for circles and as printed for imperfections",
            "no further from the defaults than by chance",
        ),
        weight=2,
        meaning="the table is evidence for one reading of section 6 more than for the forces alone; defaults were "
        "chosen because they reproduce it",
    ),
    Claim(
        name="OWN.sensitivity-rise",
        source="of our own, on CA section 6 and table 2",
        statement="Whatever choice is made where the paper leaves one open, circles become more with f_a.",
        measured="share of the twelve readings under which the percentage of circles rises from f_a = 0.5 to 1 and "
        "from 1 to 2",
        refuted="a reading under which it does not",
        study="own.sensitivity",
        parts=(Part(sensitivity.still_rise, Every(), "readings in which circles rise", "%"),),
        meaning="even that alignment makes circles would hang on a choice that the paper does not tell",
    ),
    Claim(
        name="OWN.sequence",
        source="of our own, on CA section 6",
        statement="Circles form by the same order of events in networks and in particles.",
        measured="which of each two events comes first: half-way to a regular polygon, circle by algorithm 1, half-way "
        "to few imperfections, one frequency that dominates; but for the first two, whose order can hardly be another. "
        "How often a network's circle (weight decay 1) and a particles' circle (f_a = 2) agree, and that less how "
        "often two of the same system do; the jackknife is over circles",
        refuted="agreement no better than by chance, or more than 10 points less than within each system",
        study="own.sequence",
        parts=(
            Part(formation.same_order, Above(50), "agreement between systems", "%"),
            Part(formation.same_order_as_within, Within(-10, 10), "less that within systems", "points"),
        ),
        readings=("by the order of events", "by their times, which have no common unit"),
        weight=2,
        meaning="the two would reach the same structure by different ways",
    ),
)  # fmt: skip
