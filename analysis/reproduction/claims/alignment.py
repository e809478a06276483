"""CA section 5.2, figure 4: alignment."""

from analysis.reproduction.claims.clustering import forming_parts
from analysis.reproduction.experiments import alignment, audit, networks
from analysis.reproduction.verification.claim import Claim, part
from analysis.reproduction.verification.rules import Above, Below

OTHERS = "less the others"

CLAIMS = (
    Claim(
        name="CA.figure4.rays",
        source="CA section 5.2 and figure 4",
        statement="In circles the pair sums of a class are aligned on a line through the origin.",
        measured="share of the pair sums' squared length along their own class's line, in the circles of table 1's "
        "networks; more than 0.95 is taken for aligned. By chance, with tokens renamed, it is about 0.68",
        refuted="less than 0.95, and no more than in the other networks, or by less than 0.02; one of the two, partly",
        study="ca.alignment",
        parts=(
            part(alignment.circle_alignment, Above(0.95), "circles", digits=3, name="rays"),
            part(networks.circles_minus_others, Above(0, 0.02), OTHERS, digits=3, name="rays"),
        ),
        covers=("section 5.2", "figure 4"),
        figure="ca4",
        weight=3,
        meaning="alignment, the second of the two tendencies, would not be what is seen",
    ),
    Claim(
        name="CA.figure4.no-clusters",
        source="CA section 5.2",
        statement="In circles the pair sums are no longer clustered by their modular sum.",
        measured="percentage of pair sums whose nearest other is of the same class, in circles less in the other "
        "networks of equal weight decay",
        refuted="higher than in the others, or a difference that excludes 20 points",
        study="ca.table1",
        parts=(part(networks.clustered_by_kind, Below(0, 20), "circles less others", "points"),),
        covers=("section 5.2", "figure 4"),
        figure="ca4",
        meaning="circles would be clusters as well",
    ),
    Claim(
        name="CA.figure4.pizza",
        source="CA section 5.2 and figure 4",
        statement="In circles the regions of the classes begin at the origin, like the slices of a pizza.",
        measured="share of points at a quarter, a half and three quarters of the largest pair sum's length that are of "
        "the class further out in the same direction; in circles, and less in the others of equal weight decay",
        refuted="no more than half of the points, and no more than in the other networks, or by less than 5 points; "
        "one of the two, partly",
        study="ca.classifier",
        parts=(
            part(networks.mean_in_circles, Above(50), "circles", "%", name="slices", unit=100),
            part(networks.circles_minus_others, Above(0, 5), OTHERS, "points", name="slices", unit=100),
        ),
        covers=("section 5.2", "figure 4"),
        figure="ca4",
        weight=2,
        meaning="circles would be classified by something else than direction",
    ),
    Claim(
        name="CA.s5.2.pizza",
        source="CA section 5.2",
        statement="A circle is the pizza algorithm that was found in other networks.",
        measured="Pearson's r of a pair sum's length and the right class's logit: the pizza is surer of longer pair "
        "sums, where a clock would not care. In circles, where 0.5 is the least for a pizza; and less in the other "
        "networks of equal weight decay, which are surer of longer pair sums too",
        refuted="a correlation below 0.5 in circles, and one that is lower than in the others, or higher by less than "
        "0.1; one of the two, partly",
        study="ca.classifier",
        parts=(
            part(networks.mean_in_circles, Above(0.5), "circles", digits=2, name="longer"),
            part(networks.circles_minus_others, Above(0, 0.1), OTHERS, digits=2, name="longer"),
        ),
        readings=(
            "the mark by which the pizza is told from the clock, more so in circles than elsewhere",
            "exactly that algorithm, as the paper has it: the same logits, which is not tested",
        ),
        covers=("section 5.2",),
        meaning="circles would work by another algorithm, or not more by this one than other networks do",
    ),
    Claim(
        name="CA.s5.2.weights-align",
        source="CA section 5.2",
        statement="The hidden weights tend to align with the pair sums.",
        measured="rank of each unit's nearness in direction to a pair sum among random directions, 0.5 by chance, in "
        "the circles of table 1's networks, units counted by the norm of their weights",
        refuted="a mean rank below 0.5, or one that excludes 0.55",
        study="ca.alignment",
        parts=(part(alignment.circle_alignment, Above(0.5, 0.05), "circles", digits=2, name="alignment"),),
        readings=("nearer to a pair sum than random directions are", "in the same half-plane as a pair sum"),
        covers=("section 5.2",),
        figure="ca4",
        weight=3,
        meaning="the step from weight decay to the alignment force would not be what happens in the network; for odd N "
        "a weight whose boundary lies on one line of pair sums points between two others",
    ),
    Claim(
        name="CA.s5.2.useful",
        source="CA section 5.2",
        statement="A weight vector that is aligned with a pair sum is of most use to the classifier, as it gives that "
        "pair sum the largest output and the others the smallest.",
        covers=("section 5.2",),
        untestable="an argument, of which the first half holds for any vector of given length, and the second cannot "
        "hold of pair sums that lie close by; whether weights do align is another claim",
    ),
    Claim(
        name="CA.s5.2.field",
        source="CA section 5.2, equation 4",
        statement="The gradient draws a pair sum along those of its class in its half-plane, and against those of the "
        "other classes.",
        measured="mean weight of both fields of alignment where all four are fitted to -dL/dE of networks with weight "
        "decay 1 at epochs 20 and 100, shift and change of size aside",
        refuted="a weight below 0, or one that excludes 0.1 of the gradient's size; of both fields and at both epochs, "
        "to refute it wholly, of some, partly",
        study="ca.audit",
        parts=tuple(
            one._replace(label=f"{words}, {one.label}")
            for words, field in (("like", "like_alignment"), ("unlike", "unlike_alignment"))
            for one in forming_parts(audit.field_weight, Above(0, 0.1), digits=2, field=field)
        ),
        covers=("section 2", "section 5.2"),
        weight=2,
        meaning="alignment as its formula has it would not be at work in the network",
    ),
)
