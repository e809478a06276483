"""VC appendices A.1 and A.3, figures 15, 16, 18 and 19: saddle points, and gradient norms against drops and spikes."""

from functools import partial

from analysis.reproduction.experiments import norms, saddles
from analysis.reproduction.verification.claim import Claim, Measurement, part
from analysis.reproduction.verification.criteria import Above, Below, Exists, Nearly

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
        f"VC.figure{figure}.{kind}s",
        said,
        f"percentage of {kind}s of the training loss with a peak of the whole gradient's norm, and how many "
        f"points more than by chance; {WORDS[setup]}; {RULE}",
        experiment="vc.norms",
        parts=(
            part(norms.excess_peaks, Above(0, 10), "more than by chance", "points", setup=setup, kind=kind),
            part(norms.matched_peaks, Above(50), f"{kind}s with a peak", "%", setup=setup, kind=kind),
        ),
        readings=("most of them, and more than by chance", "more than by chance"),
        places=", ".join((_setup_source(setup), f"figure {figure}")),
        figure=f"vc{figure}",
        importance=2,
        meaning=f"gradient norms would not tell when {kind}s happen",
    )


def _each_layer(setup: str, kind: str) -> Claim:
    """The same of every layer."""
    figure = FIGURES[setup]
    return Claim(
        f"VC.figure{figure}.{kind}s-by-layer",
        f"The gradient norms of all layers, each by itself, peak at {kind}s of the loss, {setup}.",
        f"how many points more {kind}s have a peak of a layer's norm than by chance; {WORDS[setup]}",
        experiment="vc.norms",
        parts=tuple(_peaks_beyond_chance(setup, kind, layer) for layer in LAYERS),
        places=", ".join((_setup_source(setup), f"figure {figure}")),
        figure=f"vc{figure}",
        meaning=f"some layers have no more peaks with {kind}s than around them",
    )


SADDLES = (
    Claim(
        "VC.appA.1.plateau-saddle",
        "Where training stagnates the loss is at a saddle: the gradient is almost zero, and it is no minimum.",
        "in the middle of the last plateau before the first drop: the gradient of the whole training loss "
        "over that half-way down the drop, median over runs, and the percentage of runs whose Hessian has negative "
        f"eigenvalues; {WORDS[FULL]}, {WORDS[MINI]}",
        experiment="vc.saddles",
        parts=(
            part(saddles.plateau_gradient_ratio, Below(0.1), "gradient, full batch", digits=3, setup=FULL),
            part(saddles.plateau_gradient_ratio, Below(0.1), "gradient, mini-batch", digits=3, setup=MINI),
            part(saddles.negative_curvature, Nearly(), "a way down, full batch", "%", setup=FULL),
            part(saddles.negative_curvature, Nearly(), "a way down, mini-batch", "%", setup=MINI),
        ),
        readings=("almost zero is a tenth of what it is in the drop", "almost zero is small against the start"),
        places="appendix A.1, section 4.1",
        figure="vc15",
        importance=3,
        meaning="on plateaus the gradient is smaller than in drops but not nearly zero: they are slow slopes",
    ),
    Claim(
        "VC.appA.1.second-plateau",
        "On the plateau between two drops, too, the loss is at a saddle.",
        "the same as of VC.appA.1.plateau-saddle in the middle of the first plateau between the first two drops",
        experiment="vc.saddles",
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
        places="appendix A.1",
        figure="vc15",
        meaning="the second plateau would be of another kind",
    ),
    Claim(
        "VC.appA.1.exit",
        "The exit from a saddle shows in the gradient norm: it rises when the first drop comes.",
        "percentage of runs with a drop whose whole gradient norm comes to twice its first level for good "
        f"within a window (2% of the run) of the first drop; {WORDS[FULL]}",
        experiment="vc.norms",
        parts=(part(norms.rises_with_drop, Above(50), "runs", "%", setup=FULL),),
        places="appendix A.1, section 4.1",
        figure="vc15",
        meaning="the norm would rise at another time, or not for good",
    ),
    Claim(
        "VC.appA.1.hessian",
        "Gradient and Hessian of the loss may give insight, and the tool may help.",
        places="appendix A.1, appendix A.3",
        untestable="a hope for what others will do; `analysis.curvature` has the Hessians",
    ),
)

NORMS = (
    _events_with_peaks(FULL, "drop", "With full batches drops of the loss come with peaks of the gradient norm."),
    _each_layer(FULL, "drop"),
    Claim(
        "VC.figure15.precisely",
        "With full batches the peaks fall exactly on the drops.",
        "percentage of the run from the moment at which a drop is half done to the nearest peak of the whole "
        "gradient's norm, before or after it and however far, median over runs of the median over their drops",
        experiment="vc.norms",
        parts=(part(norms.nearest_peak, Below(0.5), "distance", "%", digits=2, setup=FULL),),
        readings=("at the moment when the drop is half done", "somewhere within it; see VC.figure15.drops"),
        places="appendix A.1, figure 15",
        figure="vc15",
        meaning="peaks lie nearer to drops than by chance but come somewhat before or after the middle of these",
    ),
    Claim(
        "VC.figure15.three",
        "There is a run of full batches with three drops.",
        "percentage of runs with three drops or more; one is enough",
        experiment="vc.norms",
        parts=(part(norms.setup_drops, Exists(), "runs", "%", setup=FULL, least=3),),
        places="figure 15",
        figure="vc15",
        meaning="the figure would have no counterpart here",
    ),
    _events_with_peaks(MINI, "drop", "With mini-batches, too, drops of the loss come with peaks of the gradient norm."),
    _each_layer(MINI, "drop"),
    Claim(
        "VC.figure16.first-rise",
        "With mini-batches the first drop comes with the first increase of the gradient norm.",
        "percentage of runs with a drop whose whole gradient norm comes to twice its first level for good "
        "within a window (2% of the run) of the first drop, d = 2 and 3",
        experiment="vc.norms",
        parts=(
            part(norms.rises_with_drop, Above(50), "d = 2", "%", setup=MINI),
            part(norms.rises_with_drop, Above(50), "d = 3", "%", setup=MINI_3),
        ),
        places="appendix A.1, figure 16, figure 19",
        figure="vc16",
        meaning="the norm would rise at another time, or not for good",
    ),
    Claim(
        "VC.appA.1.less-salient",
        "Drops come with peaks of gradient norms less saliently with mini-batches than with full batches.",
        "points that drops with a peak are beyond chance with full batches, less those with mini-batches",
        experiment="vc.norms",
        parts=(
            part(norms.excess_peak_difference, Above(0, 10), "full less mini-batch", "points", first=FULL, second=MINI),
        ),
        readings=("drops", "drops and spikes; see VC.figure16.more-salient, which says the contrary"),
        places="appendix A.1, figure 16",
        figure="vc16",
        meaning="batches would not matter; the caption of figure 16 says the contrary of the text",
    ),
    Claim(
        "VC.figure16.more-salient",
        "Drops come with peaks of gradient norms more saliently still with mini-batches than with full ones.",
        "points that drops with a peak are beyond chance with mini-batches, less those with full batches",
        experiment="vc.norms",
        parts=(
            part(norms.excess_peak_difference, Above(0, 10), "mini-batch less full", "points", first=MINI, second=FULL),
        ),
        readings=("drops", "drops and spikes; see VC.appA.1.less-salient, which says the contrary"),
        places="figure 16",
        figure="vc16",
        meaning="the text of appendix A.1, which says the contrary of the caption, is nearer to what is seen here",
    ),
    Claim(
        "VC.figure16.example",
        "There is a run whose loss drops around epoch 250, with the first rise of the gradient norm, and "
        "again around epoch 700, where the norm turns as well.",
        "percentage of runs of mini-batches whose first drop is half done between epochs 125 and 500 and the "
        "second between 350 and 1000, a factor of 2 either way, with a rise of the whole gradient's norm within .5% of "
        "the run of each; one is enough",
        experiment="vc.norms",
        parts=(part(norms.runs_like_example, Exists(), "such runs", "%", setup=MINI, moments=EXAMPLE),),
        places="appendix A.1, figure 16",
        figure="vc16",
        meaning="the figure would have no counterpart here",
    ),
    _events_with_peaks(MINI, "spike", "With mini-batches spikes of the loss come with peaks of the gradient norm."),
    _each_layer(MINI, "spike"),
    Claim(
        "VC.appA.1.taken-back",
        "After a spike the model is taken back by large updates.",
        "size of updates in the three epochs from a spike's peak on over that before it, median over runs "
        f"with spikes; {WORDS[MINI]}",
        experiment="vc.norms",
        parts=(part(norms.update_growth, Above(1, 0.1), "updates after over before", digits=2, setup=MINI),),
        places="appendix A.1",
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
        "VC.figure19.more-salient",
        "With d = 3, too, drops come with such peaks more saliently with mini-batches than with full ones.",
        "points that drops with a peak are beyond chance with mini-batches, less those with full batches, d = 3",
        experiment="vc.norms",
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
        places="appendix A.3, figure 19",
        figure="vc19",
        meaning="batches would not matter; of d = 2 the text says the contrary",
    ),
    Claim(
        "VC.appA.3.any-dimension",
        "Many of these behaviours can be analysed whatever the dimension is.",
        places="appendix A.3",
        untestable="a remark on method; what it is applied to stands with figures 18 to 20",
    ),
)

CLAIMS = (*SADDLES, *NORMS)
