"""The tasks: addition modulo N of unordered pairs of tokens (CA), sparse modular
addition of sequences (VC), and binary operations on numbers modulo p or in a group."""

import itertools
import math
from typing import NamedTuple

import numpy as np

from dynamics import randomness
from dynamics.settings import (
    ModularSettings,
    SettingsError,
    SparseSettings,
    TransformerSettings,
    check_integer,
)


def all_pairs(n: int) -> np.ndarray:
    """All N(N+1)/2 unordered pairs of tokens, in the order of CA, algorithm 2.

    Parameters
    ----------
    n : int
        Number of tokens N.

    Returns
    -------
    numpy.ndarray
        (pair, 2) tokens i <= j.

    Examples
    --------
    >>> from dynamics import all_pairs
    >>> all_pairs(2).tolist()
    [[0, 0], [0, 1], [1, 1]]
    """
    check_integer("n", n, 1, 100_000)
    return np.stack(np.triu_indices(n), axis=-1)


def modular_sum(pairs: np.ndarray, n: int) -> np.ndarray:
    """The sum of two tokens modulo N, which the network of CA learns (CA section 3).

    Parameters
    ----------
    pairs : numpy.ndarray
        (..., 2) tokens.
    n : int
        Modulus N.

    Returns
    -------
    numpy.ndarray
        (...) sums from 0 to N - 1.

    Examples
    --------
    >>> from dynamics import all_pairs, modular_sum
    >>> modular_sum(all_pairs(3), 3)
    array([0, 1, 2, 2, 0, 1])
    """
    return (pairs[..., 0] + pairs[..., 1]) % n


def training_pairs(n: int, count: int, seeds: np.ndarray) -> np.ndarray:
    """The random training split of each run, which depends on its seed alone (CA
    section 4).

    Parameters
    ----------
    n : int
        Number of tokens N.
    count : int
        Number of pairs that are trained on.
    seeds : numpy.ndarray
        (run,) seeds.

    Returns
    -------
    numpy.ndarray
        (run, pair) bool: whether each of `all_pairs(n)` is trained on.

    Raises
    ------
    SettingsError
        If there are not that many pairs.

    Examples
    --------
    >>> from dynamics import training_pairs
    >>> training_pairs(5, count=12, seeds=[0, 1]).sum(axis=1)
    array([12, 12])
    """
    total = n * (n + 1) // 2
    if not 1 <= count <= total:
        raise SettingsError("count", count, f"from 1 to {total}, the number of pairs")
    mask = np.zeros((len(seeds), total), dtype=bool)
    for row, seed in enumerate(seeds):
        mask[
            row,
            randomness.random_stream(int(seed), "modular/split").permutation(total)[
                :count
            ],
        ] = True
    return mask


def modular_training_mask(settings: ModularSettings, seeds: np.ndarray) -> np.ndarray:
    """Whether each of `all_pairs` is trained on in the runs with these seeds: (run, pair)
    bool. Raises SettingsError."""
    n = settings.n
    listed = settings.listed_pairs()
    if listed is None:
        return training_pairs(n, settings.train_pairs, split_seeds(settings, seeds))
    mask = np.zeros((len(seeds), settings.pairs), dtype=bool)
    mask[:, ascending_pair_numbers(np.array(listed), n)] = True
    return mask


def split_seeds(
    settings: ModularSettings | TransformerSettings, seeds: np.ndarray
) -> np.ndarray:
    """The seeds by which the training pairs of the runs with these seeds are drawn."""
    if settings.split_seed is None:
        return seeds
    return np.full(len(seeds), settings.split_seed)


def ascending_pair_numbers(pairs: np.ndarray, n: int) -> np.ndarray:
    """The places of pairs i <= j (pair, 2) in `all_pairs`: (pair,)."""
    i, j = pairs.T
    return i * n - i * (i - 1) // 2 + j - i


def operation_table(settings: TransformerSettings) -> np.ndarray:
    """The results of the operation that the transformer learns.

    Elements of the symmetric group are the permutations in lexicographic order, and (a
    b)[i] = a[b[i]]. Those of the dihedral group are the rotations r^k, numbered k, and
    the reflections s r^k, numbered n + k.

    Parameters
    ----------
    settings : TransformerSettings

    Returns
    -------
    numpy.ndarray
        (element, element) int64: the number of the result for a and b.

    Examples
    --------
    >>> from dynamics import TransformerSettings, operation_table
    >>> operation_table(TransformerSettings(task="subtract", n=3))
    array([[0, 2, 1],
           [1, 0, 2],
           [2, 1, 0]])
    """
    n = settings.n
    number = np.arange(settings.elements)
    a, b = number[:, None], number[None, :]
    if settings.task == "symmetric":
        permutations = np.array(list(itertools.permutations(range(n))))
        place = n ** np.arange(n)
        codes = permutations @ place
        order = np.argsort(codes)
        return order[
            np.searchsorted(codes[order], permutations[:, permutations] @ place)
        ]
    if settings.task == "dihedral":
        turned = np.where(b < n, a % n, -a) + b  # r^k s = s r^-k
        return turned % n + n * ((a < n) != (b < n))
    results = {
        "add": a + b,
        "subtract": a - b,
        "multiply": a * b,
        "quadratic": a * a + a * b + b * b,
    }
    return results[settings.task] % n


def operation_pairs(settings: TransformerSettings) -> np.ndarray:
    """The pairs (pair, 2) of elements that are the data of the transformer: all (a, b),
    or those with a <= b."""
    m = settings.elements
    if not settings.ordered:
        return all_pairs(m)
    return np.stack(np.divmod(np.arange(m * m), m), axis=-1)


def operation_splits(
    settings: TransformerSettings, seeds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the training pairs and of the test pairs of each run, both (run,
    pair), in increasing order. Raises SettingsError."""
    listed = settings.listed_pairs()
    if listed is not None:
        return _listed_splits(settings, np.array(listed), len(seeds))
    count = settings.train_pairs
    orders = [
        randomness.random_stream(int(seed), "transformer/split").permutation(
            settings.pairs
        )
        for seed in split_seeds(settings, seeds)
    ]
    shuffled = np.array(orders, dtype=np.int64).reshape(len(seeds), settings.pairs)
    return np.sort(shuffled[:, :count], axis=1), np.sort(shuffled[:, count:], axis=1)


def _listed_splits(
    settings: TransformerSettings, pairs: np.ndarray, runs: int
) -> tuple[np.ndarray, np.ndarray]:
    """The splits of each run with given training pairs (pair, 2)."""
    m = settings.elements
    if settings.ordered:
        train = np.sort(pairs[:, 0] * m + pairs[:, 1])
    else:
        train = np.sort(ascending_pair_numbers(pairs, m))
    test = np.setdiff1d(np.arange(settings.pairs), train)
    return np.tile(train, (runs, 1)), np.tile(test, (runs, 1))


def sample_sequences(
    settings: SparseSettings, seeds: np.ndarray, split: str
) -> np.ndarray:
    """The random sequences of a split of each run, drawn uniformly with replacement (VC
    section 2).

    Parameters
    ----------
    settings : SparseSettings
    seeds : numpy.ndarray
        (run,) seeds.
    split : {"train", "test"}

    Returns
    -------
    numpy.ndarray
        (run, sequence, position) int16 tokens; a run depends on its seed alone.

    Examples
    --------
    >>> from dynamics import SparseSettings, sample_sequences
    >>> sample_sequences(SparseSettings(), seeds=[0, 1], split="train").shape
    (2, 2048, 12)
    """
    shape = (settings.data, settings.length)
    drawn = np.empty((len(seeds), *shape), np.int16)
    for run, seed in enumerate(seeds):
        drawn[run] = randomness.random_stream(int(seed), f"sparse/{split}").integers(
            0, settings.vocab, shape
        )
    return drawn


def sparse_sum(tokens: np.ndarray, settings: SparseSettings) -> np.ndarray:
    """The sum modulo p of the tokens at the positions that are summed, which the
    network of VC learns (VC section 2).

    Parameters
    ----------
    tokens : numpy.ndarray
        (..., position) tokens of sequences.
    settings : SparseSettings

    Returns
    -------
    numpy.ndarray
        (...) sums from 0 to p - 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dynamics import SparseSettings, sparse_sum
    >>> sparse_sum(np.ones((1, 12), int), SparseSettings(sparsity=5))
    array([1])
    """
    return (
        tokens[..., list(settings.counting)].sum(axis=-1, dtype=np.int64)
        % settings.vocab
    )


def distinct_sequences(
    settings: SparseSettings, seed: int, split: str
) -> tuple[np.ndarray, np.ndarray]:
    """The distinct sequences of a run, (sequence, position) int64, and how often each
    was drawn, (sequence,)."""
    drawn = sample_sequences(settings, np.array([seed]), split)[0]
    tokens, counts = np.unique(drawn, axis=0, return_counts=True)
    return tokens.astype(np.int64), counts


def unseen_mask(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Whether each test sequence is absent from the training set: (run, sequence,
    position) -> (run, sequence) bool."""
    return np.stack(
        [
            ~np.isin(_as_items(tested), _as_items(seen))
            for seen, tested in zip(train, test, strict=True)
        ]
    )


def sparse_splits(settings: SparseSettings) -> tuple[str, ...]:
    """Names of the splits; "unseen" only if at least 20 test sequences are expected not
    to occur in training."""
    expected = settings.data * math.exp(
        settings.data * math.log1p(-(float(settings.vocab) ** -settings.length))
    )
    return ("train", "test", "unseen") if expected >= 20 else ("train", "test")


class EvaluationSequences(NamedTuple):
    """The distinct sequences on which losses and accuracies are computed, and how often
    they occur in each split."""

    tokens: (
        np.ndarray
    )  # (run, sequence, position) int16; padded with sequences whose counts are 0
    targets: np.ndarray  # (run, sequence) int16
    counts: np.ndarray  # (run, sequence, split) float32, exact


def evaluation_sequences(
    settings: SparseSettings, train: np.ndarray, test: np.ndarray
) -> EvaluationSequences:
    """The distinct sequences of both splits, each (run, sequence, position). Raises
    SettingsError."""
    splits = sparse_splits(settings)
    runs = []
    for seen, tested in zip(train, test, strict=True):
        both = np.concatenate([seen, tested])
        _, first, index = np.unique(
            _as_items(both), return_index=True, return_inverse=True
        )
        counts = [
            np.bincount(item, minlength=len(first))
            for item in (index[: settings.data], index[settings.data :])
        ]
        counts.append(np.where(counts[0] == 0, counts[1], 0))
        if len(splits) == 3 and not counts[2].any():
            raise SettingsError(
                "data", settings.data, "a number that leaves some test sequences unseen"
            )
        runs.append((both[first], np.stack(counts[: len(splits)], axis=-1)))
    most = max((len(tokens) for tokens, _ in runs), default=0)
    tokens = np.zeros((len(runs), most, settings.length), np.int16)
    occurrences = np.zeros((len(runs), most, len(splits)), np.float32)
    for run, (result, often) in enumerate(runs):
        tokens[run, : len(result)], occurrences[run, : len(result)] = result, often
    return EvaluationSequences(
        tokens, sparse_sum(tokens, settings).astype(np.int16), occurrences
    )


def _as_items(rows: np.ndarray) -> np.ndarray:
    """Rows (row, number) as single items, (row,), that can be compared."""
    rows = np.ascontiguousarray(rows, np.int16)
    return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
