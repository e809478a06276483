"""VC appendices A.1 and A.3, figures 15, 16, 18 and 19: saddle points, and gradient norms against drops and spikes."""

from functools import partial

from analysis.reproduction.experiments import norms, saddles
from analysis.reproduction.verification.claim import Claim, Measurement, part
from analysis.reproduction.verification.rules import SOME, Above, Below, Nearly

FULL, MINI, FULL_3, MINI_3 = norms.SETUPS
WORDS = {
    FULL: "runs of full batches",
    MINI: "runs of mini-batches",
    FULL_3: "runs of full batches with d = 3",
    MINI_3: "runs of mini-batches with d = 3",
}
FIGURES = {FULL: "15", MINI: "16", FULL_3: "18", MINI_3: "19"}
LAYERS = (
    "embedding",
    "position_embedding",
    "query",
    "value",
    "receptor",
    "receptor_bias",
    "assembler",
    "transform_bias",
)
RULE = (
    "a drop or spike has a peak if one lies between its begin and its end or up to .5% of the run beside "
    "(`analysis.transitions.gradient_peaks`); chance is that of the same peaks one to two windows away"
)
EXAMPLE = ((125, 500), (350, 1000))
"""Epochs between which the two drops of VC figure 16 are taken to lie: a factor of 2 either way, within the run."""
TEN = "no more than by chance, or by less than 10 points"


def _setup_name(setup: str) -> str:
    """A setup in a claim's name."""
    return setup.replace(",", "").replace(" = ", "").replace(" ", "-")


def _setup_source(setup: str) -> str:
    """Where the paper speaks of a setup."""
    return "appendix A.3" if "d = 3" in setup else "appendix A.1"


def _peaks_beyond_chance(setup: str, kind: str, layer: str) -> Measurement:
    """More peaks of a layer than by chance."""
    measure = partial(norms.excess_peaks, setup=setup, kind=kind, layer=layer)
    return part(measure, Above(0, 10), layer.replace("_", " "), "points")


def _events_with_peaks(setup: str, kind: str, said: str) -> Claim:
    """Drops or spikes of a setup come with peaks of the gradient norm."""
    figure = FIGURES[setup]
    return Claim(
        name=f"VC.figure{figure}.{kind}s",
        source=f"VC {_setup_source(setup)} and figure {figure}",
        statement=said,
        measured=f"percentage of {kind}s of the training loss with a peak of the whole gradient's norm, and how many "
        f"points more than by chance; {WORDS[setup]}; {RULE}",
        refuted=f"{TEN}, and half of them or fewer, to refute it wholly; one of the two, partly",
        study="vc.norms",
        parts=(
            part(norms.excess_peaks, Above(0, 10), "more than by chance", "points", setup=setup, kind=kind),
            part(norms.matched_peaks, Above(50), f"{kind}s with a peak", "%", setup=setup, kind=kind),
        ),
        readings=("most of them, and more than by chance", "more than by chance"),
        covers=(_setup_source(setup), f"figure {figure}"),
        figure=f"vc{figure}",
        weight=2,
        meaning=f"gradient norms would not tell when {kind}s happen",
    )


def _each_layer(setup: str, kind: str) -> Claim:
    """The same of every layer."""
    figure = FIGURES[setup]
    return Claim(
        name=f"VC.figure{figure}.{kind}s-by-layer",
        source=f"VC {_setup_source(setup)} and figure {figure}",
        statement=f"The gradient norms of all layers, each by itself, peak at {kind}s of the loss, {setup}.",
        measured=f"how many points more {kind}s have a peak of a layer's norm than by chance; {WORDS[setup]}",
        refuted=f"{TEN}, in every layer, to refute it wholly; in some, partly",
        study="vc.norms",
        parts=tuple(_peaks_beyond_chance(setup, kind, layer) for layer in LAYERS),
        covers=(_setup_source(setup), f"figure {figure}"),
        figure=f"vc{figure}",
        meaning=f"some layers have no more peaks with {kind}s than around them",
    )


SADDLES = (
    Claim(
        name="VC.appA.1.plateau-saddle",
        source="VC appendix A.1; section 4.1, first loss drop",
        statement="Where training stagnates the loss is at a saddle: the gradient is almost zero, and it is no "
        "minimum.",
        measured="in the middle of the last plateau before the first drop: the gradient of the whole training loss "
        "over that half-way down the drop, median over runs, and the percentage of runs whose Hessian has negative "
        f"eigenvalues; {WORDS[FULL]}, {WORDS[MINI]}",
        refuted="a gradient of a tenth of that in the drop or more, and more than one run in ten without a negative "
        "eigenvalue, in all parts, to refute it wholly; in some, partly",
        study="vc.saddles",
        parts=(
            part(saddles.plateau_gradient_ratio, Below(0.1), "gradient, full batch", digits=3, setup=FULL),
            part(saddles.plateau_gradient_ratio, Below(0.1), "gradient, mini-batch", digits=3, setup=MINI),
            part(saddles.negative_curvature, Nearly(), "a way down, full batch", "%", setup=FULL),
            part(saddles.negative_curvature, Nearly(), "a way down, mini-batch", "%", setup=MINI),
        ),
        readings=("almost zero is a tenth of what it is in the drop", "almost zero is small against the start"),
        covers=("appendix A.1", "section 4.1"),
        figure="vc15",
        weight=3,
        meaning="on plateaus the gradient is smaller than in drops but not nearly zero: they are slow slopes",
    ),
    Claim(
        name="VC.appA.1.second-plateau",
        source="VC appendix A.1",
        statement="On the plateau between two drops, too, the loss is at a saddle.",
        measured="the same as of VC.appA.1.plateau-saddle in the middle of the first plateau between the first two "
        "drops",
        refuted="a gradient of a tenth of that in the drop or more, and more than one run in ten without a negative "
        "eigenvalue, in all parts, to refute it wholly; in some, partly",
        study="vc.saddles",
        parts=(
            part(
                saddles.plateau_gradient_ratio,
                Below(0.1),
                "gradient, full batch",
                digits=3,
                setup=FULL,
                moment="between",
            ),
            part(
                saddles.plateau_gradient_ratio,
                Below(0.1),
                "gradient, mini-batch",
                digits=3,
                setup=MINI,
                moment="between",
            ),
            part(saddles.negative_curvature, Nearly(), "a way down, full batch", "%", setup=FULL, moment="between"),
            part(saddles.negative_curvature, Nearly(), "a way down, mini-batch", "%", setup=MINI, moment="between"),
        ),
        covers=("appendix A.1",),
        figure="vc15",
        meaning="the second plateau would be of another kind",
    ),
    Claim(
        name="VC.appA.1.exit",
        source="VC appendix A.1; section 4.1, first loss drop",
        statement="The exit from a saddle shows in the gradient norm: it rises when the first drop comes.",
        measured="percentage of runs with a drop whose whole gradient norm comes to twice its first level for good "
        f"within a window (2% of the run) of the first drop; {WORDS[FULL]}",
        refuted="half of them or fewer",
        study="vc.norms",
        parts=(part(norms.rises_with_drop, Above(50), "runs", "%", setup=FULL),),
        covers=("appendix A.1", "section 4.1"),
        figure="vc15",
        meaning="the norm would rise at another time, or not for good",
    ),
    Claim(
        name="VC.appA.1.hessian",
        source="VC appendix A.1, last sentences",
        statement="Gradient and Hessian of the loss may give insight, and the tool may help.",
        covers=("appendix A.1", "appendix A.3"),
        untestable="a hope for what others will do; `analysis.curvature` has the Hessians",
    ),
)

NORMS = (
    _events_with_peaks(FULL, "drop", "With full batches drops of the loss come with peaks of the gradient norm."),
    _each_layer(FULL, "drop"),
    Claim(
        name="VC.figure15.precisely",
        source="VC appendix A.1 and figure 15, last panel",
        statement="With full batches the peaks fall exactly on the drops.",
        measured="percentage of the run from the moment at which a drop is half done to the nearest peak of the whole "
        "gradient's norm, before or after it and however far, median over runs of the median over their drops",
        refuted="half a percent of the run or more",
        study="vc.norms",
        parts=(part(norms.nearest_peak, Below(0.5), "distance", "%", digits=2, setup=FULL),),
        readings=("at the moment when the drop is half done", "somewhere within it; see VC.figure15.drops"),
        covers=("appendix A.1", "figure 15"),
        figure="vc15",
        meaning="peaks lie nearer to drops than by chance but come somewhat before or after the middle of these",
    ),
    Claim(
        name="VC.figure15.three",
        source="VC figure 15, last panel",
        statement="There is a run of full batches with three drops.",
        measured="percentage of runs with three drops or more; one is enough",
        refuted="none, and 5% excluded",
        study="vc.norms",
        parts=(part(norms.setup_drops, SOME, "runs", "%", setup=FULL, least=3),),
        covers=("figure 15",),
        figure="vc15",
        meaning="the figure would have no counterpart here",
    ),
    _events_with_peaks(MINI, "drop", "With mini-batches, too, drops of the loss come with peaks of the gradient norm."),
    _each_layer(MINI, "drop"),
    Claim(
        name="VC.figure16.first-rise",
        source="VC appendix A.1 and figure 16; figure 19",
        statement="With mini-batches the first drop comes with the first increase of the gradient norm.",
        measured="percentage of runs with a drop whose whole gradient norm comes to twice its first level for good "
        "within a window (2% of the run) of the first drop, d = 2 and 3",
        refuted="half of them or fewer, of both dimensions, to refute it wholly; of one, partly",
        study="vc.norms",
        parts=(
            part(norms.rises_with_drop, Above(50), "d = 2", "%", setup=MINI),
            part(norms.rises_with_drop, Above(50), "d = 3", "%", setup=MINI_3),
        ),
        covers=("appendix A.1", "figure 16", "figure 19"),
        figure="vc16",
        meaning="the norm would rise at another time, or not for good",
    ),
    Claim(
        name="VC.appA.1.less-salient",
        source="VC appendix A.1",
        statement="Drops come with peaks of gradient norms less saliently with mini-batches than with full batches.",
        measured="points that drops with a peak are beyond chance with full batches, less those with mini-batches",
        refuted="none, or fewer than 10",
        study="vc.norms",
        parts=(
            part(norms.excess_peak_difference, Above(0, 10), "full less mini-batch", "points", first=FULL, second=MINI),
        ),
        readings=("drops", "drops and spikes; see VC.figure16.more-salient, which says the contrary"),
        covers=("appendix A.1", "figure 16"),
        figure="vc16",
        meaning="batches would not matter; the caption of figure 16 says the contrary of the text",
    ),
    Claim(
        name="VC.figure16.more-salient",
        source="VC figure 16, caption",
        statement="Drops come with peaks of gradient norms more saliently still with mini-batches than with full ones.",
        measured="points that drops with a peak are beyond chance with mini-batches, less those with full batches",
        refuted="none, or fewer than 10",
        study="vc.norms",
        parts=(
            part(norms.excess_peak_difference, Above(0, 10), "mini-batch less full", "points", first=MINI, second=FULL),
        ),
        readings=("drops", "drops and spikes; see VC.appA.1.less-salient, which says the contrary"),
        covers=("figure 16",),
        figure="vc16",
        meaning="the text of appendix A.1, which says the contrary of the caption, is nearer to what is seen here",
    ),
    Claim(
        name="VC.figure16.example",
        source="VC appendix A.1 and figure 16: drops around epochs 250 and 700",
        statement="There is a run whose loss drops around epoch 250, with the first rise of the gradient norm, and "
        "again around epoch 700, where the norm turns as well.",
        measured="percentage of runs of mini-batches whose first drop is half done between epochs 125 and 500 and the "
        "second between 350 and 1000, a factor of 2 either way, with a rise of the whole gradient's norm within .5% of "
        "the run of each; one is enough",
        refuted="none, and 5% excluded",
        study="vc.norms",
        parts=(part(norms.runs_like_example, SOME, "such runs", "%", setup=MINI, moments=EXAMPLE),),
        covers=("appendix A.1", "figure 16"),
        figure="vc16",
        meaning="the figure would have no counterpart here",
    ),
    _events_with_peaks(MINI, "spike", "With mini-batches spikes of the loss come with peaks of the gradient norm."),
    _each_layer(MINI, "spike"),
    Claim(
        name="VC.appA.1.taken-back",
        source="VC appendix A.1",
        statement="After a spike the model is taken back by large updates.",
        measured="size of updates in the three epochs from a spike's peak on over that before it, median over runs "
        f"with spikes; {WORDS[MINI]}",
        refuted="no larger, or by less than a tenth",
        study="vc.norms",
        parts=(part(norms.update_growth, Above(1, 0.1), "updates after over before", digits=2, setup=MINI),),
        covers=("appendix A.1",),
        figure="vc16",
        meaning="Adam's updates would be as large as ever: it divides by the size of the gradient",
    ),
    _events_with_peaks(FULL_3, "drop", "With d = 3 and full batches drops come with peaks of the gradient norm."),
    _each_layer(FULL_3, "drop"),
    _events_with_peaks(FULL_3, "spike", "With d = 3 and full batches spikes come with peaks of the gradient norm."),
    _events_with_peaks(MINI_3, "drop", "With d = 3 and mini-batches drops come with peaks of the gradient norm."),
    _each_layer(MINI_3, "drop"),
    _events_with_peaks(MINI_3, "spike", "With d = 3 and mini-batches spikes come with peaks of the gradient norm."),
    _each_layer(MINI_3, "spike"),
    Claim(
        name="VC.figure19.more-salient",
        source="VC appendix A.3 and figure 19, caption",
        statement="With d = 3, too, drops come with such peaks more saliently with mini-batches than with full ones.",
        measured="points that drops with a peak are beyond chance with mini-batches, less those with full batches, d = "
        "3",
        refuted="none, or fewer than 10",
        study="vc.norms",
        parts=(
            part(
                norms.excess_peak_difference,
                Above(0, 10),
                "mini-batch less full",
                "points",
                first=MINI_3,
                second=FULL_3,
            ),
        ),
        readings=("more than with full batches", "more than with d = 2"),
        covers=("appendix A.3", "figure 19"),
        figure="vc19",
        meaning="batches would not matter; of d = 2 the text says the contrary",
    ),
    Claim(
        name="VC.appA.3.any-dimension",
        source="VC appendix A.3, first paragraph",
        statement="Many of these behaviours can be analysed whatever the dimension is.",
        covers=("appendix A.3",),
        untestable="a remark on method; what it is applied to stands with figures 18 to 20",
    ),
)

CLAIMS = (*SADDLES, *NORMS)
