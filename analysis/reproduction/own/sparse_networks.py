"""Our own claims on VC's networks: the sums that circuits encode, solutions in two
dimensions, and escapes."""

from analysis.reproduction.odonnat2024 import circuits, ideal_circuits, phases, saddles
from analysis.reproduction.verification.claim import (
    claim,
    claims_of,
    constructed,
    finding,
    part,
)
from analysis.reproduction.verification.criteria import Above, Below, Every, Nearly

CLAIMS = (
    *claims_of(
        circuits.CIRCUITS,
        finding(
            "OWN.sum",
            "Every successful run encodes one sum of its tokens with whole-number"
            " coefficients that is congruent to the target, such as x0 + x1 + x2 + x3 -"
            " x4, whatever invariances it lacks.",
            "percentage of successful runs (test accuracy above .98) whose sequence"
            " embeddings change with each token, along their leading direction, by"
            " steps within a quarter of whole numbers with the target's residues;"
            " percentage of the variance of sequence embeddings between different sums",
            circuits.percentage_part(
                Every(), "congruent sums", "runs", among="successful runs"
            ),
            part(circuits.explained_variance, Above(90), "variance", "%"),
            figure="vc3",
        ),
        claim(
            "OWN.sum-failures",
            "Runs that are not successful rarely encode a sum of their tokens that is"
            " congruent to the target.",
            "percentage of runs with a test accuracy of at most .98 whose sequence"
            " embeddings change with each token, along their leading direction, by"
            " steps within a quarter of whole numbers with the target's residues",
            circuits.percentage_part(
                Below(50, 10), "congruent sums", among="runs that are not successful"
            ),
        ),
    ),
    *claims_of(
        ideal_circuits.IDEAL,
        constructed(
            "OWN.two-dimensions-suffice",
            "A solution of the task of p = 2 and 3 exists with two dimensions and the"
            " default width.",
            "accuracy over all sequences of circuits of d = 2 that are built by hand",
            ideal_circuits.ACCURACIES,
        ),
    ),
    *claims_of(
        phases.PHASES,
        finding(
            "OWN.first-layers-fastest",
            "In the first drop of the loss the layers that make sequence embeddings"
            " accelerate more than the MLP.",
            "acceleration of the layers up to the sequence embedding in the first drop"
            " divided by that of the MLP; geometric means over layers and successful"
            " runs (test accuracy above .98)",
            part(phases.front_speed_up, Above(1, 0.25), "", digits=2),
            figure="vc5",
        ),
    ),
    *claims_of(
        saddles.SADDLES,
        finding(
            "OWN.escape",
            "A run leaves its first plateau along the direction of most negative"
            " curvature, as gradient flow would.",
            "percentage of the squared movement, in the epoch of the largest fall of"
            " the loss, that is along the lowest eigenvector of the Hessian before it,"
            " mean over runs",
            part(saddles.escape_along, Above(50, 10), "", "%", name="lowest_share"),
            meaning=(
                "many directions have negative curvature, and Adam follows none of them"
            ),
        ),
        claim(
            "OWN.escape-negative",
            "Runs leave their first plateau along directions of negative curvature,"
            " more than a random movement would.",
            "percentage of the squared movement, in the epoch of the largest fall of"
            " the loss, along eigenvectors of the Hessian with negative eigenvalues,"
            " minus that of a random movement",
            part(saddles.escape_beyond_chance, Above(0, 10), "", "points"),
        ),
        claim(
            "OWN.saddles-only",
            "Negative curvature of the loss does not mark plateaus: runs have it at the"
            " end of training as well.",
            "percentage of mini-batch runs whose Hessian has negative eigenvalues at"
            " the end of training",
            part(
                saddles.negative_curvature,
                Nearly(),
                "",
                "%",
                setup=saddles.MINI,
                moment="end",
            ),
        ),
    ),
)
