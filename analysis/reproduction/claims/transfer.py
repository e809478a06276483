"""VC section 4.2, figures 9 to 11: circuits carried over to larger vocabularies; and what CH's summary says of it."""

from analysis.clustering_heads.vocabulary_transfer import TRANSFER_KINDS
from analysis.reproduction.experiments import finetuning, transfer
from analysis.reproduction.verification.claim import Claim, part
from analysis.reproduction.verification.criteria import Above, Below, Every, Exists, Nearly

LENGTHS = (
    "from scratch for 1000 epochs, as the text says of its own",
    "from scratch for 2000 epochs, as many as a finetuned run has in all",
)

SPLIT = "accuracy is that on the 2048 test sequences, of which hardly any occur in training from p = 3 on"


def _larger_vocabulary(vocab: int) -> Claim:
    """Means at a vocabulary of figure 9, left."""
    return Claim(
        f"VC.figure9.mean-p{vocab}",
        f"At p = {vocab} runs that were finetuned from p = 2 are more accurate than runs that learned it "
        "from scratch, in the mean over 250 runs.",
        f"difference of mean test accuracy; {SPLIT}",
        experiment="vc.transfer" if vocab == 3 else "vc.vocabularies",
        parts=tuple(
            part(
                transfer.finetuning_gain,
                Above(0, 1),
                f"over scratch, {epochs} epochs",
                "points",
                vocab=vocab,
                over=kind,
            )
            for kind, epochs in zip(TRANSFER_KINDS[:2], (1000, 2000), strict=True)
        ),
        readings=LENGTHS,
        places="figure 9, section 4.2",
        figure="vc9",
        importance=2,
        meaning=f"a circuit of p = 2 would not help to learn p = {vocab}",
    )


FIGURE_9 = (
    *(_larger_vocabulary(vocab) for vocab in transfer.VOCABS),
    Claim(
        "VC.figure9.maximum",
        "At every p from 3 to 10 the best finetuned run is more accurate than the best from scratch.",
        "percentage of finetuned runs that are better, by more than 1 point of noise, than each run "
        "from scratch, after 1000 and after 2000 epochs; one is enough",
        experiment="vc.vocabularies",
        parts=tuple(
            part(transfer.better_than_all, Exists(), f"p = {vocab}", "%", vocab=vocab) for vocab in transfer.VOCABS
        ),
        places="figure 9",
        figure="vc9",
        importance=2,
        meaning="finetuning would raise the mean, but not what is possible",
    ),
)

LEARNING = (
    Claim(
        "VC.s4.2.nothing-above-4",
        "With p > 4, and 2048 sequences of 12 tokens to train on, nothing is learned from scratch within 1000 epochs.",
        "percentage of runs that have not come a tenth of the way from chance to 1 in test accuracy after "
        "1000 epochs, for p = 5 to 10",
        experiment="vc.vocabularies",
        parts=tuple(
            part(transfer.not_learned_runs, Nearly(), f"p = {vocab}", "%", vocab=vocab) for vocab in range(5, 11)
        ),
        readings=(
            "training does not lead to any learning, a lucky run aside",
            "no single run learns anything",
            "the mean over runs stays at chance",
        ),
        places="section 4.2, figure 9",
        figure="vc9",
        importance=2,
        meaning="larger vocabularies would be rare to be learned rather than out of reach",
    ),
    Claim(
        "VC.s4.2.something-up-to-4",
        "Up to p = 4 some runs learn something from scratch within 1000 epochs.",
        "percentage of runs that have come a tenth of the way from chance to 1 or more; the sentence only "
        "says that nothing is learned above 4, so one run is enough",
        experiment="vc.vocabularies",
        parts=tuple(part(transfer.learned_runs, Exists(), f"p = {vocab}", "%", vocab=vocab) for vocab in (2, 3, 4)),
        places="section 4.2, figure 9",
        figure="vc9",
        meaning="the limit would lie lower than at 4",
    ),
    Claim(
        "VC.s4.2.harder-with-p",
        "There are p^T sequences, and the problem gets harder as p grows.",
        "rank correlation of p = 2 to 10 with the share of the way from chance to 1 that runs have "
        "come after 1000 epochs from scratch; the length of the sequences, of which the same is said, is not varied",
        experiment="vc.vocabularies",
        parts=(part(transfer.vocabulary_correlation, Below(0, 0.1), "rank correlation", digits=2),),
        places="section 4.2",
        figure="vc9",
        meaning="the size of the vocabulary would not be what makes it hard",
    ),
    Claim(
        "VC.s4.2.finetuning-p3",
        "1000 epochs of p = 2 followed by 1000 of p = 3 learn p = 3 much better than training on it alone, "
        "in the mean over 250 runs.",
        f"difference of mean test accuracy at p = 3 between finetuned runs and runs from scratch; {SPLIT}",
        experiment="vc.transfer",
        parts=tuple(
            part(transfer.finetuning_gain, Above(0, 5), f"over scratch, {epochs} epochs", "points", vocab=3, over=kind)
            for kind, epochs in zip(TRANSFER_KINDS[:2], (1000, 2000), strict=True)
        ),
        readings=LENGTHS,
        places="section 4.2, abstract, conclusion",
        figure="vc9",
        importance=3,
        meaning="circuits would not be transferable, and the curriculum of no use",
    ),
)

CIRCUITS = (
    Claim(
        "VC.s4.2.both-invariances",
        "With p = 2 circuits are often found that have both the permutation and the suffix invariance.",
        "percentage of runs whose sequence embeddings after 1000 epochs lack no invariance "
        "(`analysis.clustering_heads.labels`: no spurious token makes more than 1% of their variance, nor the order of "
        "two others)",
        experiment="vc.finetuning",
        parts=(part(finetuning.both_invariances, Above(10), "of all runs", "%"),),
        readings=("often among all runs", "often among those that solve the task"),
        places="section 4.2, figure 2",
        figure="vc2",
        importance=2,
        meaning="what transfers would be a rare find",
    ),
    Claim(
        "VC.s4.2.any-p",
        "Invariance to suffixes and to the order of tokens holds for any p.",
        "the task: percentage of random sequences, p = 2 to 10, whose target stays when the counting tokens "
        "change places and the others their values; the circuits: percentage of those of p = 2 with both invariances "
        "that have them still when sequences may hold a third token, with a random embedding and no training on it",
        experiment="vc.finetuning",
        parts=(
            part(finetuning.same_target, Every(), "of the task", "%"),
            part(finetuning.intact_with_token, Nearly(), "of circuits, with a new token", "%"),
        ),
        readings=("the target has them whatever p is", "a circuit that has them keeps them when p grows"),
        places="section 4.2, figure 10",
        figure="vc10",
        meaning="the circuit would not be carried over as it is: a new token breaks what held for the old ones, and "
        "finetuning has to mend it",
    ),
    Claim(
        "VC.s4.2.six-clusters-only",
        "Finetuned to p = 3, only runs that had both invariances at p = 2, which is to say six clusters of "
        "sequence embeddings, reach 100% test accuracy.",
        "of the runs with every test sequence right, the percentage whose source had exactly six clusters "
        "(single linkage at a tenth of the spread), and whose source lacked no invariance",
        experiment="vc.finetuning",
        parts=(
            part(finetuning.perfect_from_ideal, Every(), "from six clusters", "%"),
            part(finetuning.perfect_from_invariant, Every(), "from both invariances", "%"),
        ),
        places="section 4.2",
        figure="vc9",
        importance=3,
        meaning="other circuits of p = 2 could be extended to p = 3 as well, so that six clusters are no condition",
    ),
    Claim(
        "VC.figure10.same-circuit",
        "Finetuning begins with the circuit of p = 2 and one embedding more.",
        "percentage of runs whose first frame of finetuning has all weights of its source bit for bit",
        experiment="vc.finetuning",
        parts=(part(finetuning.started_from_source, Every(), "", "%"),),
        places="figure 10",
        figure="vc10",
        meaning="what is measured here would not be transfer",
    ),
    Claim(
        "VC.figure11.embeddings",
        "After finetuning the embeddings are not far from where they began.",
        "root mean square distance of the normalised embeddings Z(x, t) at the end from their own start, in "
        "percent of that from other runs' starts, of finetuned runs above .98",
        experiment="vc.finetuning",
        parts=(part(finetuning.start_distance, Below(50), "distance, of unrelated runs'", "%"),),
        readings=("as a rule for finetuned runs that succeed", "of the one run that is shown"),
        places="figure 11, section 4.2",
        figure="vc11",
        meaning="finetuning would build another circuit rather than extend the one it was given",
    ),
    Claim(
        "VC.figure11.attention",
        "A finetuned circuit has come to attend mainly to those counting tokens that are not the new one.",
        "percentage of finetuned runs above .98 with more than half of their attention on counting positions "
        "that hold an old token, and less on the new token there than on either old one; told of one run, so one is "
        "enough",
        experiment="vc.finetuning",
        parts=(part(finetuning.attention_on_old, Exists(), "", "%"),),
        readings=("there is such a run", "finetuned runs are so as a rule"),
        places="figure 11, section 4.2",
        figure="vc11",
        meaning="circuits would take the new token in another way",
    ),
    Claim(
        "VC.figure11.corrected",
        "A finetuned circuit gives some attention to spurious positions, and its value matrix makes up for it.",
        "percentage of finetuned runs above .98 that lack no invariance although a tenth or more of their "
        "attention is on spurious positions; told of one run, so one is enough",
        experiment="vc.finetuning",
        parts=(part(finetuning.corrected_runs, Exists(), "", "%"),),
        places="figure 11, section 4.2",
        figure="vc11",
        meaning="faulty attention would not be made up for after finetuning",
    ),
    Claim(
        "VC.s4.2.like-initial",
        "The final configuration stays rather close to the initial one, as attention shows.",
        "correlation over sequences and positions of the attention map at the start and at the end of "
        "finetuning, mean over finetuned runs above .98",
        experiment="vc.finetuning",
        parts=(part(finetuning.attention_correlation, Above(0.3), "correlation", digits=2),),
        places="section 4.2, figure 8",
        figure="vc8",
        meaning="the start would not tell where finetuning ends",
    ),
    Claim(
        "VC.s4.2.curriculum",
        "An easier task first induces circuits that make a harder one easier to learn.",
        "gain in mean test accuracy at p = 3 to 10 of runs finetuned from p = 2 over runs from scratch with "
        "as many epochs in all",
        experiment="vc.vocabularies",
        parts=tuple(
            part(transfer.finetuning_gain, Above(0, 1), f"p = {vocab}", "points", vocab=vocab, over=TRANSFER_KINDS[1])
            for vocab in transfer.VOCABS
        ),
        readings=("at every p of figure 9", "at p = 3"),
        places="section 4.2, section 1, conclusion",
        figure="vc9",
        importance=2,
        meaning="the same time spent on the harder task alone would do as well",
    ),
)

UNTESTABLE = (
    Claim(
        "VC.s4.2.data-curation",
        "Careful choice of data matters for very large models because of the same mechanism: it lets them "
        "learn invariances and leave saddles sooner.",
        places="section 4.2, section 1, conclusion",
        untestable="a hypothesis on large models and their data, of which there is no experiment in the paper; what it "
        "leans on in the small model is VC.s4.2.curriculum",
    ),
)

OF_SUMMARY = (
    Claim(
        "CH.abstract.curriculum",
        "A curriculum has an effect on which circuits are learned and how well.",
        "gain in mean test accuracy at p = 3 of 1000 epochs of p = 2 and 1000 of p = 3 over 2000 of p = 3",
        experiment="vc.transfer",
        parts=(
            part(transfer.finetuning_gain, Above(0, 5), "gain at p = 3", "points", vocab=3, over=TRANSFER_KINDS[1]),
        ),
        places="abstract",
        figure="vc9",
        importance=2,
        meaning="the curriculum would not matter",
    ),
    Claim(
        "CH.summary.robust-invariants",
        "A curriculum lets robust invariants be learned.",
        "difference, between finetuned runs and runs from scratch with as many epochs in all, of the "
        "percentage of all runs that end at p = 3 with both invariances",
        experiment="vc.finetuning",
        parts=(part(finetuning.invariance_gain, Above(0, 2), "gain at p = 3", "points"),),
        places="summary, abstract",
        importance=2,
        meaning="a curriculum would raise accuracy in another way than by the invariants of the problem",
    ),
)

OWN = (
    Claim(
        "OWN.clusters-transfer",
        "The number of clusters at the end of pretraining predicts transfer: fewer, and so nearer to the "
        "ideal six, go with better accuracy at p = 3, both among the sources that had learned p = 2 (above .98) and "
        "among all of them.",
        "rank correlation of the number of clusters of a source's sequence embeddings with test accuracy "
        "after finetuning to p = 3, for the sources above .98 at p = 2 and for all sources; and for the former the "
        "chance that of two, one that leads above .98 and one that does not, the one that does has fewer clusters (the "
        "area under the curve)",
        experiment="vc.finetuning",
        parts=(
            part(finetuning.cluster_correlation, Below(-0.3), "sources above .98", digits=2, successful=True),
            part(
                finetuning.fewer_clusters_probability, Above(0.7), "sources above .98, area", digits=2, successful=True
            ),
            part(finetuning.cluster_correlation, Below(-0.3), "all sources", digits=2, successful=False),
        ),
        figure="vc9",
        importance=2,
        meaning="the count alone does not tell how well a circuit carries over",
    ),
)

VC_CLAIMS = (*LEARNING, *FIGURE_9, *CIRCUITS, *UNTESTABLE)
CH_CLAIMS = OF_SUMMARY
OWN_CLAIMS = OWN
CLAIMS = (*VC_CLAIMS, *CH_CLAIMS, *OWN_CLAIMS)
