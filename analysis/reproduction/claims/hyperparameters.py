"""VC section 4.1, figures 6 and 7: what hyperparameters do to a run, and what they leave as it is."""

from analysis.reproduction.experiments import ablation, recipe_changes
from analysis.reproduction.verification.claim import Claim, part
from analysis.reproduction.verification.criteria import Above, Below, Every
from analysis.transitions.ablations import ABLATION_PANELS

STEPS = (
    "values over the figure's ranges, with the same seed along a panel. Where there are fewer than in the figure they "
    "lie further apart, which makes jumps likelier and so favours the claim"
)

CLAIMS = (
    Claim(
        "VC.figure6.variability",
        "After 1000 epochs the test accuracy of a single run varies strongly when one hyperparameter changes slightly.",
        "percentage of steps from one value of a panel to the next at which the accuracy of a single run "
        f"changes by more than 10 points; {STEPS}",
        experiment="vc.ablation",
        parts=tuple(
            part(ablation.accuracy_jumps, Above(10), ABLATION_PANELS[panel].split(":")[0], "%", panel=panel)
            for panel in ablation.PANELS
        ),
        readings=("in single runs as a rule", "in the one run of the figure"),
        places="figure 6, section 4.1",
        figure="vc6",
        importance=2,
        meaning="a single run would tell what a hyperparameter does",
    ),
    Claim(
        "VC.figure7.regular",
        "Averaged over runs, test accuracy follows hyperparameters more regularly than in a single run.",
        "correlation along a panel of the mean accuracy of one half of the runs with that of the other half, "
        "over all ways to halve them; that a mean is smoother than a single run tells nothing, as averaging alone "
        "makes it so, but where values do nothing two means agree no more than two runs do",
        experiment="vc.ablation",
        parts=tuple(
            part(ablation.panel_regularity, Above(0.5), ABLATION_PANELS[panel].split(":")[0], digits=2, panel=panel)
            for panel in ablation.PANELS
        ),
        places="figure 7, section 4.1",
        figure="vc7",
        importance=2,
        meaning="hyperparameters would matter as irregularly for many runs as for one",
    ),
    Claim(
        "VC.figure6.same-start",
        "Along an ablation first weights and batches are the same.",
        "first weights alone: percentage of runs whose loss before training is the same, bit for bit, at all "
        "values of the batch size and of both learning rates (other widths have other weights). Batches are not "
        "compared",
        experiment="vc.ablation",
        parts=(part(ablation.same_initial_loss, Every(), "", "%"),),
        places="figure 6",
        figure="vc6",
        meaning="differences along a panel would also be those of another start",
    ),
    Claim(
        "VC.s4.1.time-varies",
        "The time until the phase change varies a lot when hyperparameters change.",
        "percentage of pairs, a run with the recipe and the same with learning rate .002 or .005 or batches "
        "of 16 or 64, whose losses leave their first level at epochs more than a factor of 2 apart; "
        "pairs of which this cannot be told within 1000 epochs are left out",
        experiment="vc.relatives",
        parts=(part(recipe_changes.escape_times_apart, Above(10), "apart by a factor of 2", "%"),),
        places="section 4.1, conclusion",
        importance=2,
        meaning="the time until the phase change would belong to the first weights",
    ),
    Claim(
        "VC.s4.1.time-unpredictable",
        "The time that a run needs to leave the first saddle is very hard to predict.",
        "rank correlation of the escape times of the same seeds with the recipe and with another learning "
        "rate or batch size, mean over four such changes, of runs that escape with both",
        experiment="vc.relatives",
        parts=(part(recipe_changes.escape_time_correlation, Below(0.7), "rank correlation", digits=2),),
        readings=("a known escape of the same first weights tells little", "nothing that is known at the start tells"),
        places="section 4.1, conclusion",
        meaning="the same first weights escape at similar times, whatever the hyperparameters",
    ),
    Claim(
        "VC.s4.1.final-weights",
        "Other hyperparameters with the same first weights hardly alter the final weights.",
        "between the ends of a run with the recipe and with learning rate .002 or .005 or batches of 16 or "
        "64: the distance of all weights over how far both went from their start (two unrelated ways are 1.4 apart), "
        "and the correlation of their attention maps; means over the four changes, then over runs",
        experiment="vc.relatives",
        parts=(
            part(
                recipe_changes.end_similarity, Below(0.5), "distance of final weights", digits=2, name="weight_distance"
            ),
            part(
                recipe_changes.end_similarity,
                Above(0.7),
                "correlation of attention",
                digits=2,
                name="attention_correlation",
            ),
            part(
                recipe_changes.excess_end_similarity,
                Above(0),
                "nearer than other seeds",
                digits=2,
                name="weight_distance",
            ),
        ),
        readings=("the ends are nearly the same", "the ends are more alike than those of different first weights"),
        places="section 4.1, conclusion",
        importance=2,
        meaning="first weights alone do not fix where a run ends; how it is trained matters too",
    ),
)
