"""Training of the transformer (Zhong et al., p = 59), in interleaved pairs with a plain
torch loop."""

import dataclasses
import itertools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from dynamics.settings import TransformerSettings
from dynamics.tasks import operation_pairs, operation_splits
from dynamics.training.training_systems import TransformerSystem

sys.path.insert(
    0, str(Path(__file__).parent.parent)
)  # for tests.plain_transformer, which no package installs

from tests.plain_transformer import PlainTransformer, plain_tokens, plain_training

EPOCHS, PAIRS = 4, 7


def plain_epochs(s: TransformerSettings) -> Callable[[], None]:
    """A function that trains a plain module of one run for `EPOCHS` epochs."""
    network, pairs = (
        TransformerSystem(s, "cpu").network,
        torch.from_numpy(operation_pairs(s)),
    )
    train = torch.from_numpy(operation_splits(s, np.array([0]))[0][0])
    initial = {
        name: torch.from_numpy(values[0])
        for name, values in network.initial(np.array([0])).items()
    }
    model = PlainTransformer(s).load(initial)
    training = plain_training(
        model, s, plain_tokens(s, pairs), network.target(pairs), itertools.repeat(train)
    )
    return lambda: list(itertools.islice(training, EPOCHS))


def ensemble_epochs(s: TransformerSettings, runs: int) -> Callable[[], None]:
    """A function that trains an ensemble for `EPOCHS` epochs."""
    system = TransformerSystem(s, "cpu")
    backend, rows = (
        system.backend(np.arange(runs)),
        system.network.flatten(system.network.initial(np.arange(runs))),
    )
    backend.set_state(rows, dict.fromkeys(system.moment_names, np.zeros_like(rows)), 0)
    return lambda: backend.train(0, EPOCHS)


def speed_up(
    attention_rate: float, runs: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Median time of a plain epoch divided by that of an epoch of each run of an
    ensemble."""
    s = dataclasses.replace(TransformerSettings(), attention_rate=attention_rate)
    plain, ensemble, ratios = plain_epochs(s), ensemble_epochs(s, runs), []
    for _ in range(PAIRS + 1):
        times = []
        for train in (plain, ensemble):
            begin = clock()
            train()
            times.append(clock() - begin)
        ratios.append(runs * times[0] / times[1])
    return statistics.median(ratios[1:])


class SpeedUp:
    """Epochs of each run relative to a plain loop, in time and in processor time."""

    params = ([0.0, 1.0], [1, 8])
    param_names = ("attention_rate", "runs")
    unit = "times"
    timeout = 900

    def track_time(self, attention_rate, runs):
        return speed_up(attention_rate, runs)

    def track_processor_time(self, attention_rate, runs):
        return speed_up(attention_rate, runs, time.process_time)
