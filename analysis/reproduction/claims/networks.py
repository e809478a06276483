"""CA sections 1 to 4, table 1, figures 1 and 2, appendices A, C and F: structures of networks and their accuracy."""

from analysis.reproduction.experiments import networks, projections, structures
from analysis.reproduction.verification.claim import Claim, Measurement, part, untested_claim
from analysis.reproduction.verification.estimate import reported_count, reported_number
from analysis.reproduction.verification.rules import SOME, Above, Agrees, Below, Rule

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
    parts = [part(networks.network_circles, Agrees(reported_count(circles), 10), "circles", "%", decay=decay)]
    for label, printed, runs in (("circles", sure, circles),) * several + (("others", others, rest),):
        rule = Agrees(reported_number(printed, runs), 10)
        parts.append(
            part(
                networks.network_accuracy, rule, f"accuracy of {label}", "%", decay=decay, of_circles=label == "circles"
            )
        )
    holes, correlation = Agrees(reported_number(imperfect, rest), 5), Agrees(reported_number(together, rest), 0.1)
    parts += [
        part(networks.network_imperfections, holes, "imperfections", decay=decay),
        part(networks.imperfection_correlation, correlation, "correlation", digits=2, decay=decay),
    ]
    told = f", with a validation accuracy of {sure}%" if sure else ""
    told += " (one circle: not compared)" if sure and not several else ""
    return Claim(
        name=f"CA.table1.wd{decay:g}",
        source=f"CA table 1, weight decay {decay:g}",
        statement=f"Of 100 networks {circles} become circles{told}; the others have a validation accuracy of {others}% "
        f"and {imperfect} imperfections in the mean, which correlate with their accuracy by {together}.",
        measured="structures at the end of training by the algorithms of CA appendix A, accuracy on the pairs left out "
        "of training, Pearson's r with its Fisher-z interval",
        refuted="a difference by more than chance, and by more than 10 points of circles or accuracy, 5 imperfections "
        "or 0.1 of correlation; of all these numbers, to refute it wholly, of some, partly",
        study="ca.table1",
        parts=tuple(parts),
        readings=SPLIT,
        covers=("table 1", "section 4"),
        figure="ca-c",
        weight=3,
        meaning="the networks trained here would not be those of the paper, or its hundred seeds were unusual",
    )


ROWS = (
    table_1_row(0.0, 0, "", "18.2", "102.2 ± 6.1", "-0.92 [-0.95, -0.88]"),
    table_1_row(0.3, 1, "77.4", "34.8", "72.7 ± 6.6", "-0.90 [-0.93, -0.85]"),
    table_1_row(0.6, 12, "65.9", "51.6", "39.6 ± 4.0", "-0.84 [-0.89, -0.77]"),
    table_1_row(1.0, 18, "60.4", "46.7", "31.6 ± 4.0", "-0.64 [-0.75, -0.49]"),
)


def _measurements_by_weight_decay(
    measure, rule: Rule, decays: tuple[float, ...], unit: str = "", digits: int = 1, **more
) -> tuple[Measurement, ...]:
    """A part for each weight decay."""
    return tuple(
        part(measure, rule, f"weight decay {each:g}", unit, digits=digits, decay=each, **more) for each in decays
    )


def end_state_part(system: str, at: float, of: tuple[str, ...], rule: Rule, label: str) -> Measurement:
    """The share of end states of some kinds."""
    return part(structures.end_state_kinds, rule, label, "%", system=system, at=at, kinds=of)


def trend_part(rule: Rule, name: str, **more) -> Measurement:
    """A quantity rises or falls with weight decay."""
    return part(networks.weight_decay_trend, rule, "rank correlation with weight decay", digits=2, name=name, **more)


def _accuracy_part(label: str, first: tuple[str, ...], second: tuple[str, ...], margin: float = 5) -> Measurement:
    """One group of kinds of end states has a higher validation accuracy than another."""
    return part(structures.accuracy_by_kind, Above(0, margin), label, "points", first=first, second=second)


STRUCTURED = ("circle", "grid", "imperfect grid")

STRUCTURES = (
    Claim(
        name="CA.s4.structures",
        source="CA abstract, sections 2 and 4",
        statement="Embeddings tend to arrange themselves in arithmetic progressions, as grids or as circles.",
        measured="share of networks that end as circles or near a lattice, with holes or without",
        refuted="no more than half of the networks, at both weight decays to refute it wholly, at one, partly",
        study="ca.structures",
        parts=tuple(
            end_state_part("network", each, STRUCTURED, Above(50), f"weight decay {each:g}") for each in WITH_DECAY
        ),
        readings=(*KINDS, "of networks without weight decay too, of which the paper itself finds most to be irregular"),
        covers=("abstract", "section 2", "section 4", "appendix C"),
        figure="ca-c",
        weight=3,
        meaning="what the paper sets out to explain would be an exception",
    ),
    Claim(
        name="CA.figure1.both",
        source="CA figure 1 and appendix C",
        statement="There are networks whose embeddings end as a regular grid, and others that end as a circle.",
        measured="share of circles, and of lattices without holes, among networks with weight decay 1; that there are "
        "any is what is claimed",
        refuted="none, of so many that one in twenty is excluded; of both kinds, to refute it wholly, of one, partly",
        study="ca.structures",
        parts=(
            end_state_part("network", 1.0, ("circle",), SOME, "circles"),
            end_state_part("network", 1.0, ("grid",), SOME, "grids without holes"),
        ),
        readings=KINDS,
        covers=("figure 1", "appendix C"),
        figure="ca1",
        weight=2,
        meaning="the two structures would not both be there",
    ),
    Claim(
        name="CA.figure2.imperfect",
        source="CA section 4 and figure 2",
        statement="Sometimes the embeddings end as an imperfect grid.",
        measured="share of networks near a lattice that has holes, and near none without; more than 1 in 100 is taken "
        "for sometimes",
        refuted="no more than one network in a hundred, at both weight decays to refute it wholly, at one, partly",
        study="ca.structures",
        parts=tuple(
            end_state_part("network", each, ("imperfect grid",), Above(1), f"weight decay {each:g}")
            for each in WITH_DECAY
        ),
        readings=("a lattice with holes", "a grid with many imperfections by algorithm 2"),
        covers=("figure 2", "section 4"),
        figure="ca2",
        meaning="grids would form whole or not at all",
    ),
    Claim(
        name="CA.s4.order",
        source="CA section 4",
        statement="Validation accuracy is highest where the structure is clearest, lower for imperfect grids, and "
        "lowest where embeddings are not aligned.",
        measured="difference of the mean validation accuracy of kinds of networks within each weight decay, averaged "
        "over those that have both, leaving out seeds in turn",
        refuted="a difference below 0, or one that excludes 5 points; of all three, to refute it wholly, of some, "
        "partly",
        study="ca.structures",
        parts=(
            _accuracy_part("circles and grids less imperfect grids", ("circle", "grid"), ("imperfect grid",)),
            _accuracy_part("grids less imperfect grids", ("grid",), ("imperfect grid",)),
            _accuracy_part("imperfect grids less not aligned", ("imperfect grid",), ("neither",)),
        ),
        readings=("kinds by the distance from lattices without holes and with", "kinds by the number of imperfections"),
        covers=("section 4",),
        figure="ca2",
        weight=2,
        meaning="how regular the structure is would not be what accuracy depends on",
    ),
    Claim(
        name="CA.s2.generalisation",
        source="CA section 2",
        statement="Grids and circles are key to how well the network generalises.",
        measured="validation accuracy of circles and of lattices, with holes or without, less that of networks that "
        "are neither, within each weight decay, averaged over those that have both, leaving out seeds in turn",
        refuted="a difference below 0, or one that excludes 10 points; of both, to refute it wholly, of one, partly",
        study="ca.structures",
        parts=(
            _accuracy_part("circles less neither", ("circle",), ("neither",), 10),
            _accuracy_part("grids less neither", ("grid", "imperfect grid"), ("neither",), 10),
        ),
        covers=("section 2", "section 4", "section 8"),
        weight=2,
        meaning="networks would generalise by something else than these structures",
    ),
)

ACCURACY = (
    Claim(
        name="CA.table1.circles-ahead",
        source="CA section 4 and table 1",
        statement="Circles have a higher validation accuracy than the other networks, at every weight decay at which "
        "there are any: 0.3, 0.6 and 1.",
        measured="difference of the mean validation accuracy at each of them; the paper's table has one circle at 0.3",
        refuted="a difference below 0, or one that excludes 5 points; at all three, to refute it wholly, at some, "
        "partly",
        study="ca.structures",
        parts=_measurements_by_weight_decay(structures.circle_accuracy_gain, Above(0, 5), (0.3, *WITH_DECAY), "points"),
        readings=("in the mean at each weight decay", "each circle above each other network"),
        covers=("section 4", "table 1"),
        weight=2,
        meaning="circles would be no better than grids",
    ),
    Claim(
        name="CA.table1.correlated",
        source="CA section 4 and table 1",
        statement="Among the networks that are not circles validation accuracy goes closely with few imperfections.",
        measured="Pearson's r of imperfections and accuracy at each weight decay; below -0.5 is a large correlation",
        refuted="a correlation above -0.5; at all weight decays, to refute it wholly, at some, partly",
        study="ca.table1",
        parts=_measurements_by_weight_decay(networks.imperfection_correlation, Below(-0.5), networks.DECAYS, digits=2),
        covers=("section 4", "table 1"),
        weight=2,
        meaning="imperfections by algorithm 2 would not measure what makes a grid useful",
    ),
    Claim(
        name="CA.s4.decay-circles",
        source="CA sections 2, 4 and 5.2, table 1",
        statement="Weight decay is crucial for circles to form.",
        measured="share of circles at weight decay 1 less that without, and the trend over the four weight decays",
        refuted="fewer circles with weight decay, or a difference that excludes 10 points, and a trend below 0; one of "
        "the two, partly",
        study="ca.table1",
        parts=(
            part(networks.network_circle_change, Above(0, 10), "weight decay 1 less 0", "points"),
            trend_part(Above(0), "circle"),
        ),
        covers=("section 2", "section 4", "section 5.2", "table 1"),
        weight=3,
        meaning="circles would come from something else than weight decay",
    ),
    Claim(
        name="CA.s4.decay-imperfections",
        source="CA sections 2, 4 and 7, table 1",
        statement="Weight decay is crucial for grids to have fewer imperfections.",
        measured="mean imperfections of the networks that are not circles at weight decay 1 less those without, and "
        "the trend over the four weight decays",
        refuted="more imperfections with weight decay, or a difference that excludes 15 of 153, and a trend above 0; "
        "one of the two, partly",
        study="ca.table1",
        parts=(
            part(networks.network_imperfection_change, Below(0, 15), "weight decay 1 less 0"),
            trend_part(Below(0), "imperfections", of_circles=False),
        ),
        covers=("section 2", "section 4", "section 7", "table 1"),
        weight=3,
        meaning="what weight decay does for generalisation would not be to make grids",
    ),
)

ALGORITHMS = (
    Claim(
        name="CA.appA.circles",
        source="CA appendix A.1",
        statement="A largest norm below 1.2 times the smallest finds circles with great accuracy.",
        measured="of the circles by algorithm 1 how many are regular polygons in the order of one frequency, nearer to "
        "one than to any lattice; and of these how many the algorithm finds, of networks and of particles",
        refuted="no more than nine in ten, either way and of both systems, to refute it wholly; one of these, partly",
        study="ca.structures",
        parts=tuple(
            part(measure, Above(90), f"{label}, {system}s", "%", system=system)
            for measure, label in (
                (structures.regular_circles, "circles that are regular"),
                (structures.circular_polygons, "regular ones that are found"),
            )
            for system in structures.SYSTEMS
        ),
        readings=("against the distance from regular polygons", "against what a person sees, as the paper has it"),
        covers=("appendix A.1", "section 4"),
        meaning="the tables would count as circles what are none, or miss some",
    ),
    Claim(
        name="CA.appA.imperfections",
        source="CA appendix A.2",
        statement="The sums of pairs of a perfect grid are a grid again, where those of one modular sum lie together.",
        covers=("appendix A.2",),
        untestable="a property of what a perfect grid is defined to be, and the reason for the measure",
    ),
    Claim(
        name="CA.appF.structures",
        source="CA section 4 and appendix F",
        statement="Embeddings of three and four dimensions form similar structures, grids or circles, to be seen in "
        "their projections on two axes.",
        measured="share of networks with fewer imperfections than one random embedding in a hundred; imperfections "
        "against the same places with tokens renamed; share with a projection on two axes, or principal ones, nearer "
        "to a circle or lattice than one random embedding in a hundred",
        refuted="no more than half of the networks, and more than half of the imperfections of renamed tokens, with "
        "three and with four axes, to refute it wholly; some of these, partly",
        study="ca.appF",
        parts=tuple(
            part(measure, rule, f"D = {dim}, {label}", "%", dim=dim)
            for dim in projections.HIGHER
            for measure, rule, label in (
                (projections.few_imperfections, Above(50), "few imperfections"),
                (projections.relative_imperfections, Below(50), "imperfections of those by chance"),
                (projections.structured_projections, Above(50), "projections"),
            )
        ),
        readings=(
            "pair sums of one class lie together, and some projection is a circle or lattice of the plane",
            "a lattice of as many dimensions as the embedding",
        ),
        covers=("appendix F", "section 4"),
        figure="ca-f",
        meaning="what the paper explains in the plane would not carry over to wider embeddings",
    ),
)


UNTESTED = (
    untested_claim(
        "CA.s1.earlier",
        "CA section 1",
        "Earlier work found circular structures, progress measures, and phases "
        "of training, and treated embeddings as particles to explain phase transitions.",
        "about other papers, models and tasks",
        "section 1",
    ),
    untested_claim(
        "CA.s1.use",
        "CA section 1",
        "To understand how training proceeds helps to make networks safer, more accurate and cheaper.",
        "an outlook, of which nothing is measured",
        "section 1",
    ),
    untested_claim(
        "CA.s2.demo",
        "CA abstract and section 2",
        "An interactive demo shows training and particles.",
        "about a web page; the explorer of this package shows the same",
        "section 2",
    ),
    untested_claim(
        "CA.s3.model",
        "CA section 3",
        "The network adds two embeddings, and classifies the sum by one hidden "
        "layer; it is trained by AdamW on 80% of all pairs at once.",
        "a definition: it is what is trained here",
        "section 3",
    ),
    untested_claim(
        "CA.s4.earlier",
        "CA sections 4 and 8",
        "Circles and grids agree with what was found of other networks that learn modular addition.",
        "about other papers' networks",
        "section 4",
    ),
    untested_claim(
        "CA.s8.outlook",
        "CA section 8, limitations and broader impact",
        "The explanation has no proof, is of a very simple network, and opens ways to study others.",
        "an outlook and a caution, of which nothing is measured",
        "section 8",
        "limitations",
        "broader impact",
    ),
    untested_claim(
        "CA.compute.day",
        "CA compute resources",
        "The study took 271 hours of a cloud machine with one T4; "
        "networks and particles together can be repeated in less than 24 hours.",
        "a cost on another machine; the time that the whole of this takes stands with the report",
        "compute resources",
    ),
)

CLAIMS = (*ROWS, *ACCURACY, *STRUCTURES, *ALGORITHMS, *UNTESTED)
