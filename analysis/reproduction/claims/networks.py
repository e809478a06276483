"""CA sections 1 to 4, table 1, figures 1 and 2, appendices A, C and F: structures of networks and their accuracy."""

from analysis.reproduction.musat2024 import appendix_f, networks, structures, table1
from analysis.reproduction.verification.claim import Claim, Measurement, part
from analysis.reproduction.verification.criteria import Above, Agrees, Below, Criterion, Exists
from analysis.reproduction.verification.estimate import reported_count, reported_number

SPLIT = (
    "seeds 0 and on, each with first weights and a split of the pairs of its own, the same at every weight decay",
    "one split for all of them, which the paper does not say",
)
KINDS = (
    "near a lattice that respects addition, with holes or without, as one random embedding in a hundred is, or a "
    "circle by algorithm 1",
    "what looks like one in a picture, as the paper has it",
)
WITH_DECAY = (0.6, 1.0)
"""Weight decays at which the paper finds circles more than once."""


def table_1_row(decay: float, circles: int, sure: str, others: str, imperfect: str, together: str) -> Claim:
    """A row of the table of 100 networks, as it is printed; sure is the accuracy of its circles."""
    several, rest = circles > 1, 100 - circles
    parts = [part(table1.network_circles, Agrees(reported_count(circles), 10), "circles", "%", decay=decay)]
    for label, printed, runs in (("circles", sure, circles),) * several + (("others", others, rest),):
        rule = Agrees(reported_number(printed, runs), 10)
        parts.append(
            part(table1.network_accuracy, rule, f"accuracy of {label}", "%", decay=decay, of_circles=label == "circles")
        )
    holes, correlation = Agrees(reported_number(imperfect, rest), 5), Agrees(reported_number(together, rest), 0.1)
    parts += [
        part(table1.network_imperfections, holes, "imperfections", decay=decay),
        part(table1.imperfection_correlation, correlation, "correlation", digits=2, decay=decay),
    ]
    told = f", with a validation accuracy of {sure}%" if sure else ""
    told += " (one circle: not compared)" if sure and not several else ""
    return Claim(
        f"CA.table1.wd{decay:g}",
        f"Of 100 networks {circles} become circles{told}; the others have a validation accuracy of {others}% "
        f"and {imperfect} imperfections in the mean, which correlate with their accuracy by {together}.",
        "structures at the end of training by the algorithms of CA appendix A, accuracy on the pairs left out "
        "of training, Pearson's r with its Fisher-z interval",
        experiment="ca.table1",
        parts=tuple(parts),
        readings=SPLIT,
        places="table 1, section 4",
        figure="ca-c",
        importance=3,
        meaning="the networks trained here would not be those of the paper, or its hundred seeds were unusual",
    )


ROWS = (
    table_1_row(0.0, 0, "", "18.2", "102.2 ± 6.1", "-0.92 [-0.95, -0.88]"),
    table_1_row(0.3, 1, "77.4", "34.8", "72.7 ± 6.6", "-0.90 [-0.93, -0.85]"),
    table_1_row(0.6, 12, "65.9", "51.6", "39.6 ± 4.0", "-0.84 [-0.89, -0.77]"),
    table_1_row(1.0, 18, "60.4", "46.7", "31.6 ± 4.0", "-0.64 [-0.75, -0.49]"),
)


def _measurements_by_weight_decay(
    measure, rule: Criterion, decays: tuple[float, ...], unit: str = "", digits: int = 1, **more
) -> tuple[Measurement, ...]:
    """A part for each weight decay."""
    return tuple(
        part(measure, rule, f"weight decay {each:g}", unit, digits=digits, decay=each, **more) for each in decays
    )


def end_state_part(system: str, at: float, of: tuple[str, ...], rule: Criterion, label: str) -> Measurement:
    """The share of end states of some kinds."""
    return part(structures.end_state_kinds, rule, label, "%", system=system, at=at, kinds=of)


def _accuracy_part(label: str, first: tuple[str, ...], second: tuple[str, ...], margin: float = 5) -> Measurement:
    """One group of kinds of end states has a higher validation accuracy than another."""
    return part(structures.accuracy_by_kind, Above(0, margin), label, "points", first=first, second=second)


STRUCTURED = ("circle", "grid", "imperfect grid")

STRUCTURES = (
    Claim(
        "CA.s4.structures",
        "Embeddings tend to arrange themselves in arithmetic progressions, as grids or as circles.",
        "share of networks that end as circles or near a lattice, with holes or without",
        experiment="ca.structures",
        parts=tuple(
            end_state_part("network", each, STRUCTURED, Above(50), f"weight decay {each:g}") for each in WITH_DECAY
        ),
        readings=(*KINDS, "of networks without weight decay too, of which the paper itself finds most to be irregular"),
        places="abstract, section 2, section 4, appendix C",
        figure="ca-c",
        importance=3,
        meaning="what the paper sets out to explain would be an exception",
    ),
    Claim(
        "CA.figure1.both",
        "There are networks whose embeddings end as a regular grid, and others that end as a circle.",
        "share of circles, and of lattices without holes, among networks with weight decay 1; that there are "
        "any is what is claimed",
        experiment="ca.structures",
        parts=(
            end_state_part("network", 1.0, ("circle",), Exists(), "circles"),
            end_state_part("network", 1.0, ("grid",), Exists(), "grids without holes"),
        ),
        readings=KINDS,
        places="figure 1, appendix C",
        figure="ca1",
        importance=2,
        meaning="the two structures would not both be there",
    ),
    Claim(
        "CA.figure2.imperfect",
        "Sometimes the embeddings end as an imperfect grid.",
        "share of networks near a lattice that has holes, and near none without; more than 1 in 100 is taken "
        "for sometimes",
        experiment="ca.structures",
        parts=tuple(
            end_state_part("network", each, ("imperfect grid",), Above(1), f"weight decay {each:g}")
            for each in WITH_DECAY
        ),
        readings=("a lattice with holes", "a grid with many imperfections by algorithm 2"),
        places="figure 2, section 4",
        figure="ca2",
        meaning="grids would form whole or not at all",
    ),
    Claim(
        "CA.s4.order",
        "Validation accuracy is highest where the structure is clearest, lower for imperfect grids, and "
        "lowest where embeddings are not aligned.",
        "difference of the mean validation accuracy of kinds of networks within each weight decay, averaged "
        "over those that have both, leaving out seeds in turn",
        experiment="ca.structures",
        parts=(
            _accuracy_part("circles and grids less imperfect grids", ("circle", "grid"), ("imperfect grid",)),
            _accuracy_part("grids less imperfect grids", ("grid",), ("imperfect grid",)),
            _accuracy_part("imperfect grids less not aligned", ("imperfect grid",), ("neither",)),
        ),
        readings=("kinds by the distance from lattices without holes and with", "kinds by the number of imperfections"),
        places="section 4",
        figure="ca2",
        importance=2,
        meaning="how regular the structure is would not be what accuracy depends on",
    ),
    Claim(
        "CA.s2.generalisation",
        "Grids and circles are key to how well the network generalises.",
        "validation accuracy of circles and of lattices, with holes or without, less that of networks that "
        "are neither, within each weight decay, averaged over those that have both, leaving out seeds in turn",
        experiment="ca.structures",
        parts=(
            _accuracy_part("circles less neither", ("circle",), ("neither",), 10),
            _accuracy_part("grids less neither", ("grid", "imperfect grid"), ("neither",), 10),
        ),
        places="section 2, section 4, section 8",
        importance=2,
        meaning="networks would generalise by something else than these structures",
    ),
)

ACCURACY = (
    Claim(
        "CA.table1.circles-ahead",
        "Circles have a higher validation accuracy than the other networks, at every weight decay at which "
        "there are any: 0.3, 0.6 and 1.",
        "difference of the mean validation accuracy at each of them; the paper's table has one circle at 0.3",
        experiment="ca.structures",
        parts=_measurements_by_weight_decay(structures.circle_accuracy_gain, Above(0, 5), (0.3, *WITH_DECAY), "points"),
        readings=("in the mean at each weight decay", "each circle above each other network"),
        places="section 4, table 1",
        importance=2,
        meaning="circles would be no better than grids",
    ),
    Claim(
        "CA.table1.correlated",
        "Among the networks that are not circles validation accuracy goes closely with few imperfections.",
        "Pearson's r of imperfections and accuracy at each weight decay; below -0.5 is a large correlation",
        experiment="ca.table1",
        parts=_measurements_by_weight_decay(table1.imperfection_correlation, Below(-0.5), networks.DECAYS, digits=2),
        places="section 4, table 1",
        importance=2,
        meaning="imperfections by algorithm 2 would not measure what makes a grid useful",
    ),
    Claim(
        "CA.s4.decay-circles",
        "Weight decay is crucial for circles to form.",
        "share of circles at weight decay 1 less that without, and the trend over the four weight decays",
        experiment="ca.table1",
        parts=(
            part(table1.network_circle_change, Above(0, 10), "weight decay 1 less 0", "points"),
            networks.trend_part(Above(0), "circle"),
        ),
        places="section 2, section 4, section 5.2, table 1",
        importance=3,
        meaning="circles would come from something else than weight decay",
    ),
    Claim(
        "CA.s4.decay-imperfections",
        "Weight decay is crucial for grids to have fewer imperfections.",
        "mean imperfections of the networks that are not circles at weight decay 1 less those without, and "
        "the trend over the four weight decays",
        experiment="ca.table1",
        parts=(
            part(table1.network_imperfection_change, Below(0, 15), "weight decay 1 less 0"),
            networks.trend_part(Below(0), "imperfections", of_circles=False),
        ),
        places="section 2, section 4, section 7, table 1",
        importance=3,
        meaning="what weight decay does for generalisation would not be to make grids",
    ),
)

ALGORITHMS = (
    Claim(
        "CA.appA.circles",
        "A largest norm below 1.2 times the smallest finds circles with great accuracy.",
        "of the circles by algorithm 1 how many are regular polygons in the order of one frequency, nearer to "
        "one than to any lattice; and of these how many the algorithm finds, of networks and of particles",
        experiment="ca.structures",
        parts=tuple(
            part(measure, Above(90), f"{label}, {system}s", "%", system=system)
            for measure, label in (
                (structures.regular_circles, "circles that are regular"),
                (structures.circular_polygons, "regular ones that are found"),
            )
            for system in structures.SYSTEMS
        ),
        readings=("against the distance from regular polygons", "against what a person sees, as the paper has it"),
        places="appendix A.1, section 4",
        meaning="the tables would count as circles what are none, or miss some",
    ),
    Claim(
        "CA.appA.imperfections",
        "The sums of pairs of a perfect grid are a grid again, where those of one modular sum lie together.",
        places="appendix A.2",
        untestable="a property of what a perfect grid is defined to be, and the reason for the measure",
    ),
    Claim(
        "CA.appF.structures",
        "Embeddings of three and four dimensions form similar structures, grids or circles, to be seen in "
        "their projections on two axes.",
        "share of networks with fewer imperfections than one random embedding in a hundred; imperfections "
        "against the same places with tokens renamed; share with a projection on two axes, or principal ones, nearer "
        "to a circle or lattice than one random embedding in a hundred",
        experiment="ca.appF",
        parts=tuple(
            part(measure, rule, f"D = {dim}, {label}", "%", dim=dim)
            for dim in appendix_f.HIGHER
            for measure, rule, label in (
                (appendix_f.few_imperfections, Above(50), "few imperfections"),
                (appendix_f.relative_imperfections, Below(50), "imperfections of those by chance"),
                (appendix_f.structured_projections, Above(50), "projections"),
            )
        ),
        readings=(
            "pair sums of one class lie together, and some projection is a circle or lattice of the plane",
            "a lattice of as many dimensions as the embedding",
        ),
        places="appendix F, section 4",
        figure="ca-f",
        meaning="what the paper explains in the plane would not carry over to wider embeddings",
    ),
)


UNTESTED = (
    Claim(
        "CA.s1.earlier",
        "Earlier work found circular structures, progress measures, and phases "
        "of training, and treated embeddings as particles to explain phase transitions.",
        untestable="about other papers, models and tasks",
        places="section 1",
    ),
    Claim(
        "CA.s1.use",
        "To understand how training proceeds helps to make networks safer, more accurate and cheaper.",
        untestable="an outlook, of which nothing is measured",
        places="section 1",
    ),
    Claim(
        "CA.s2.demo",
        "An interactive demo shows training and particles.",
        untestable="about a web page; the explorer of this package shows the same",
        places="section 2",
    ),
    Claim(
        "CA.s3.model",
        "The network adds two embeddings, and classifies the sum by one hidden "
        "layer; it is trained by AdamW on 80% of all pairs at once.",
        untestable="a definition: it is what is trained here",
        places="section 3",
    ),
    Claim(
        "CA.s4.earlier",
        "Circles and grids agree with what was found of other networks that learn modular addition.",
        untestable="about other papers' networks",
        places="section 4",
    ),
    Claim(
        "CA.s8.outlook",
        "The explanation has no proof, is of a very simple network, and opens ways to study others.",
        untestable="an outlook and a caution, of which nothing is measured",
        places="section 8, limitations, broader impact",
    ),
    Claim(
        "CA.compute.day",
        "The study took 271 hours of a cloud machine with one T4; "
        "networks and particles together can be repeated in less than 24 hours.",
        untestable="a cost on another machine; the time that the whole of this takes stands with the report",
        places="compute resources",
    ),
)

CLAIMS = (*ROWS, *ACCURACY, *STRUCTURES, *ALGORITHMS, *UNTESTED)
