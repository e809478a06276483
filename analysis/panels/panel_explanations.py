"""What panels show, why, and what to look for: a sentence or two for each name of a
panel."""

_FREQUENCY = (
    "The numbers in the plane of one frequency of the embedding. Where this frequency"
    " counts, they form a circle."
)
PANEL_EXPLANATIONS = {
    "embedding": "The positions of the numbers; grey lines join successive numbers. They"
    " move during training: look for a circle, or for a grid of rows.",
    "pair_sums": "The sum of the positions of two numbers, for every pair, in the colour"
    " of its answer: pairs of one answer gather. A coloured background is the answer"
    " for a sum at this place. A sum is a grid imperfection if the nearest other sum"
    " has another answer.",
    "descent": "Where the training loss pulls every number: against the gradient.",
    "law": "The force of particles at the positions of the network, to compare with the"
    " pull of the loss.",
    "force": "The force on every particle. It is small where the particles rest.",
    "like_attraction": "The part of the force by which equal pair sums attract.",
    "unlike_repulsion": "The part of the force by which different pair sums repel.",
    "like_alignment": "The part of the force that turns equal pair sums into one"
    " direction.",
    "unlike_alignment": "The part of the force that turns different pair sums into"
    " different directions.",
    "hidden": "The input weights of the hidden neurons. Look for directions that they"
    " share with pair sums.",
    "circularity": "The largest distance of a number from the centre, divided by the"
    " smallest. Below 1.2 the numbers are a circle.",
    "imperfections": "How many pair sums have a nearest neighbour with another answer. A"
    " grid has few, a circle about half of all pairs.",
    "loss": "The error that training reduces. Fast drops, jumps and plateaus are marked"
    " on the slider.",
    "accuracy": "The share of correct answers. The training split rises first if the"
    " network memorises.",
    "cosine": "How well the force of particles points where the loss pulls: 1 equal, 0"
    " unrelated, −1 opposite.",
    "gradient_norm": "The size of the gradient for each kind of weights, or of the force on"
    " particles. Peaks of the gradient often coincide with drops and spikes of the"
    " loss.",
    "update_norm": "How far the last step moved the weights of each kind, or the"
    " particles.",
    "token_embeddings": "The vector that the network learns for each token.",
    "position_embeddings": "The vector that the network learns for each position of the"
    " sequence.",
    "sums": "Token and position embedding added: what the network knows of a token at a"
    " position.",
    "normalised_sums": "The same sums at unit size; the arrow is the query, and tokens"
    " along it get attention.",
    "attention": "How much weight each token gets. Look for positions that are ignored.",
    "values": "What a token contributes to the sequence embedding when it is attended"
    " to.",
    "sequence_embeddings": "One point for each sequence, in the colour of its kind."
    " Sequences that are treated alike form a cluster.",
    "transform_map": "The answer of the network for a sequence at each place of the"
    " plane. A spike occurs where a cluster crosses a border.",
    "normalised_sequences": "The directions of the sequences, with the directions at"
    " which neurons switch.",
    "receptors": "Input weights of the neurons: the directions to which they respond.",
    "assemblers": "Output weights of the neurons: where they push a sequence.",
    "transforms": "The sequences after the feed-forward layer. Their direction decides"
    " the answer.",
    "output_map": "The answer at each place of the plane after the feed-forward layer.",
    "output_probabilities": "The probability of each answer, for every sequence.",
    **{f"frequency_{k}": _FREQUENCY for k in range(1, 5)},
    "correct_logits": "The score of the correct answer for every pair of numbers. It"
    " turns bright for all pairs once the network has found the rule.",
    "restricted_loss": "The loss with only the part of the logits that adds by circles,"
    " or without it: it tells the rule from what is known by heart.",
    "committor": "The share of slightly displaced copies of the run that end with the"
    " outcome. The mark is the step of the decision: from there on, more than half of"
    " them end as the run does.",
    "fourier_norms": "How strong each frequency of the embedding is. A few remain.",
}
"""By name of the panel."""
