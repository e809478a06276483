"""CA section 5.2, figure 4: alignment."""

from analysis.reproduction.claims.clustering import forming_parts
from analysis.reproduction.experiments import alignment, audit
from analysis.reproduction.musat2024 import networks
from analysis.reproduction.verification.claim import Claim, part
from analysis.reproduction.verification.criteria import Above, Below

OTHERS = "less the others"

CLAIMS = (
    Claim(
        "CA.figure4.rays",
        "In circles the pair sums of a class are aligned on a line through the origin.",
        "share of the pair sums' squared length along their own class's line, in the circles of table 1's "
        "networks; more than 0.95 is taken for aligned. By chance, with tokens renamed, it is about 0.68",
        experiment="ca.alignment",
        parts=(
            part(alignment.circle_alignment, Above(0.95), "circles", digits=3, name="rays"),
            part(networks.circles_minus_others, Above(0, 0.02), OTHERS, digits=3, name="rays"),
        ),
        places="section 5.2, figure 4",
        figure="ca4",
        importance=3,
        meaning="alignment, the second of the two tendencies, would not be what is seen",
    ),
    Claim(
        "CA.figure4.no-clusters",
        "In circles the pair sums are no longer clustered by their modular sum.",
        "percentage of pair sums whose nearest other is of the same class, in circles less in the other "
        "networks of equal weight decay",
        experiment="ca.table1",
        parts=(part(networks.clustered_by_kind, Below(0, 20), "circles less others", "points"),),
        places="section 5.2, figure 4",
        figure="ca4",
        meaning="circles would be clusters as well",
    ),
    Claim(
        "CA.figure4.pizza",
        "In circles the regions of the classes begin at the origin, like the slices of a pizza.",
        "share of points at a quarter, a half and three quarters of the largest pair sum's length that are of "
        "the class further out in the same direction; in circles, and less in the others of equal weight decay",
        experiment="ca.classifier",
        parts=(
            part(networks.mean_in_circles, Above(50), "circles", "%", name="slices", unit=100),
            part(networks.circles_minus_others, Above(0, 5), OTHERS, "points", name="slices", unit=100),
        ),
        places="section 5.2, figure 4",
        figure="ca4",
        importance=2,
        meaning="circles would be classified by something else than direction",
    ),
    Claim(
        "CA.s5.2.pizza",
        "A circle is the pizza algorithm that was found in other networks.",
        "Pearson's r of a pair sum's length and the right class's logit: the pizza is surer of longer pair "
        "sums, where a clock would not care. In circles, where 0.5 is the least for a pizza; and less in the other "
        "networks of equal weight decay, which are surer of longer pair sums too",
        experiment="ca.classifier",
        parts=(
            part(networks.mean_in_circles, Above(0.5), "circles", digits=2, name="longer"),
            part(networks.circles_minus_others, Above(0, 0.1), OTHERS, digits=2, name="longer"),
        ),
        readings=(
            "the mark by which the pizza is told from the clock, more so in circles than elsewhere",
            "exactly that algorithm, as the paper has it: the same logits, which is not tested",
        ),
        places="section 5.2",
        meaning="circles would work by another algorithm, or not more by this one than other networks do",
    ),
    Claim(
        "CA.s5.2.weights-align",
        "The hidden weights tend to align with the pair sums.",
        "rank of each unit's nearness in direction to a pair sum among random directions, 0.5 by chance, in "
        "the circles of table 1's networks, units counted by the norm of their weights",
        experiment="ca.alignment",
        parts=(part(alignment.circle_alignment, Above(0.5, 0.05), "circles", digits=2, name="alignment"),),
        readings=("nearer to a pair sum than random directions are", "in the same half-plane as a pair sum"),
        places="section 5.2",
        figure="ca4",
        importance=3,
        meaning="the step from weight decay to the alignment force would not be what happens in the network; for odd N "
        "a weight whose boundary lies on one line of pair sums points between two others",
    ),
    Claim(
        "CA.s5.2.useful",
        "A weight vector that is aligned with a pair sum is of most use to the classifier, as it gives that "
        "pair sum the largest output and the others the smallest.",
        places="section 5.2",
        untestable="an argument, of which the first half holds for any vector of given length, and the second cannot "
        "hold of pair sums that lie close by; whether weights do align is another claim",
    ),
    Claim(
        "CA.s5.2.field",
        "The gradient draws a pair sum along those of its class in its half-plane, and against those of the "
        "other classes.",
        "mean weight of both fields of alignment where all four are fitted to -dL/dE of networks with weight "
        "decay 1 at epochs 20 and 100, shift and change of size aside",
        experiment="ca.audit",
        parts=tuple(
            one._replace(label=f"{words}, {one.label}")
            for words, field in (("like", "like_alignment"), ("unlike", "unlike_alignment"))
            for one in forming_parts(audit.field_weight, Above(0, 0.1), digits=2, field=field)
        ),
        places="section 2, section 5.2",
        importance=2,
        meaning="alignment as its formula has it would not be at work in the network",
    ),
)
