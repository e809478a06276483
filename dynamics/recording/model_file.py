"""A model file: the functions of a model from outside, in one small Python file.

The file may define any of

    modulus = 113                        # the model combines two numbers modulo N
    def logits(parameters, inputs): ...  # (pair, class) of pairs of numbers (pair, 2)
    def embedding(parameters): ...       # (token, axis), a row for each number
    def training_pairs(): ...            # the pairs (pair, 2) that the model is trained on
    def operation(a, b): ...             # the answer to each pair; by default a + b mod N
    def loss(parameters, batch): ...     # the mean loss of a batch
    def batches(): ...                   # the batches over whose losses the mean is taken
    def module(config): ...              # a torch.nn.Module, instead of logits

`parameters` is a dict of tensors by the names in the state dict. A trajectory can
contain the source of the file. The source is run only if its user says so: the file is
named again, trust is given, or the same source was run on this computer before."""

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from dynamics.errors import TrajectoryError
from dynamics.folders import expand_home, user_cache_folder
from dynamics.networks.derivatives import differentiable_twice
from dynamics.recording.quantities import describe, near_missing_names
from dynamics.settings import MODEL_FILE, SettingsError, check_integer
from dynamics.trajectory.schema import OPERATION
from dynamics.user_code import read_source, reported_errors, run_source

Parameters = Mapping[str, torch.Tensor]

MODEL_FUNCTIONS = (
    "logits",
    "loss",
    "batches",
    "embedding",
    "training_pairs",
    "operation",
    "module",
)
"""Functions that a model file may define."""

SOURCE, SHA256, NAME = "model_source", "model_sha256", "model_file"
"""Attributes of a trajectory: source of the model file, its SHA-256, and its name."""


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """Functions of a model from outside. Those that are missing are None.

    Parameters
    ----------
    logits : callable, optional
        ``logits(parameters, inputs)`` returns the logits (pair, class) of pairs of
        numbers, an integer tensor (pair, 2). Of logits (pair, position, class), the last
        position is used; of more than N classes, the first N.
    loss : callable, optional
        ``loss(parameters, batch)`` returns the mean loss of a batch, a tensor with one
        element. Default: the cross-entropy of the logits of the training pairs.
    batches : callable, optional
        ``batches()`` returns the batches over whose losses the mean is taken.
    embedding : callable, optional
        ``embedding(parameters)`` returns the embedding (token, axis), whose first N rows
        are those of the numbers.
    training_pairs : callable, optional
        ``training_pairs()`` returns the pairs of numbers that the model is trained on,
        (pair, 2).
    operation : callable, optional
        ``operation(a, b)`` returns the answers, of integer arrays of the same shape.
        Default: a + b modulo N.
    module : callable, optional
        ``module(config)`` returns a `torch.nn.Module` that maps inputs to logits; it is
        called with the recorded parameters and buffers. `config` is a dict of the
        numbers, strings and flags that lie beside the weights in the first checkpoint.
    modulus : int
        The modulus N; 0 if tokens are no numbers modulo N.
    path : Path, optional
        The file that defines them.
    source : str
        Text of that file.

    Examples
    --------
    >>> from dynamics import ModelFile
    >>> model = ModelFile(embedding=lambda parameters: parameters["embed.W_E"], modulus=5)
    >>> model.logits is None
    True
    """

    logits: Callable[[Parameters, torch.Tensor], torch.Tensor] | None = None
    loss: Callable[[dict[str, torch.Tensor], Any], torch.Tensor] | None = None
    batches: Callable[[], Iterable[Any]] | None = None
    embedding: Callable[[Parameters], torch.Tensor] | None = None
    training_pairs: Callable[[], Any] | None = None
    operation: Callable[[np.ndarray, np.ndarray], Any] | None = None
    module: Callable[[dict[str, Any]], torch.nn.Module] | None = None
    modulus: int = 0
    path: Path | None = None
    source: str = ""

    def __post_init__(self) -> None:
        for name in MODEL_FUNCTIONS:
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise SettingsError(name, type(value).__name__, "a function")
        check_integer("modulus", self.modulus, 0, 10**9)

    @property
    def name(self) -> str:
        """The path of the file, as it is named in messages."""
        return str(self.path or "the model file")

    def error(self, found: str, allowed: str) -> SettingsError:
        """The error of a function of the file that does not return what is allowed."""
        return SettingsError("model", f"{self.name}: {found}", allowed)

    @contextlib.contextmanager
    def reported_errors(
        self, function: str, parameters: Parameters | None = None
    ) -> Iterator[None]:
        """Report errors of a function, which is given these parameters, as
        SettingsError, with the line of the file."""
        with reported_errors(self.path, f"{function}()", "model"):
            if parameters is None:
                yield
            else:
                with near_missing_names(parameters), differentiable_twice():
                    yield

    def attributes(self, modulus: int) -> dict[str, str]:
        """The attributes that store the model in a trajectory of numbers modulo N: its
        file, and whether it combines the numbers otherwise than by their sum."""
        result = {}
        if modulus and not np.array_equal(self.answers(modulus), sums(modulus)):
            result[OPERATION] = "other"
        if self.path is not None:
            digest = source_hash(self.source)
            result |= {NAME: self.path.name, SOURCE: self.source, SHA256: digest}
        return result

    def answers(self, modulus: int) -> np.ndarray:
        """The answer to each pair of numbers: (a, b) int. Raises SettingsError."""
        if self.operation is None:
            return sums(modulus)
        a, b = np.indices((modulus, modulus))
        with self.reported_errors("operation"):
            result = np.asarray(self.operation(a, b))
        if result.shape != a.shape or not np.isin(result, np.arange(modulus)).all():
            raise self.error(
                f"operation() returns {result.dtype} of shape {result.shape}",
                f"whole numbers from 0 to {modulus - 1}, of the shape of a",
            )
        return result.astype(np.int64)


def embedding_of(model: ModelFile, state: Parameters, modulus: int = 0) -> torch.Tensor:
    """The embedding of a state dict by the function of a model file: (token, axis), of
    the N numbers alone if N is known. Raises SettingsError."""
    assert model.embedding is not None
    with model.reported_errors("embedding", state):
        result = model.embedding(state)
    n = modulus or model.modulus
    if not isinstance(result, torch.Tensor) or result.ndim != 2 or len(result) < n:
        allowed = (
            f"a tensor ({n}, axis), or more rows" if n else "a tensor (token, axis)"
        )
        raise model.error(f"embedding() returns {describe(result)}", allowed)
    return result[:n] if n else result


def sums(modulus: int) -> np.ndarray:
    """a + b modulo N of all pairs of numbers: (a, b) int."""
    return np.indices((modulus, modulus)).sum(0) % modulus


def sum_names(answers: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Permutations u and v of the numbers with answers[a, b] = u(a) + v(b) modulo N;
    None if there are none.

    >>> a, b = np.indices((5, 5))
    >>> sum_names((a - b) % 5)
    (array([0, 1, 2, 3, 4]), array([0, 4, 3, 2, 1]))
    """
    n = len(answers)
    first = (answers[:, 0] - answers[0, 0]) % n
    second = answers[0]
    adds = np.array_equal((first[:, None] + second) % n, answers)
    permute = len(set(first)) == n and len(set(second)) == n
    return (first, second) if adds and permute else None


def source_hash(source: str) -> str:
    """SHA-256 of the text of a model file, as hexadecimal digits."""
    return hashlib.sha256(source.encode()).hexdigest()


def load_model_file(path: str | Path) -> ModelFile:
    """Run a model file.

    Parameters
    ----------
    path : str or Path
        A Python file. It can import modules that lie beside it.

    Returns
    -------
    ModelFile

    Raises
    ------
    SettingsError
        If the file is missing, raises an error, or defines no function of a model.

    Examples
    --------
    >>> from pathlib import Path
    >>> from dynamics import load_model_file
    >>> text = "modulus = 5\\ndef embedding(parameters): return parameters['weight']"
    >>> _ = Path("my_model.py").write_text(text)
    >>> load_model_file("my_model.py").modulus
    5
    """
    path = expand_home(path, "model")
    source = read_source(path, "model", MODEL_FILE)
    model = _run_source(path, source)
    _trust(source)
    return model


def find_model(
    trajectory: xr.Dataset, path: str | Path | None = None, trust: bool = False
) -> ModelFile | None:
    """The model file of a trajectory: the one at `path`, or that in the trajectory.

    Parameters
    ----------
    trajectory : xarray.Dataset
    path : str or Path, optional
        A model file. It is used in place of that in the trajectory.
    trust : bool
        Run the source in the trajectory even if it never ran on this computer.

    Returns
    -------
    ModelFile or None
        None if there is neither.

    Raises
    ------
    SettingsError
        If the source in the trajectory is not trusted, or cannot be run.
    TrajectoryError
        If the source in the trajectory is not the one that was stored.

    Examples
    --------
    >>> from dynamics import ParticleSettings, find_model, simulate
    >>> find_model(simulate(ParticleSettings(n=5), steps=1, progress=False)) is None
    True
    """
    if path is not None:
        return load_model_file(path)
    source = trajectory.attrs.get(SOURCE)
    if source is None:
        return None
    if source_hash(source) != trajectory.attrs.get(SHA256):
        raise TrajectoryError(
            f"attribute {SOURCE}: was changed after it was stored; its SHA-256 is not"
            f" that of the attribute {SHA256}"
        )
    name = Path(trajectory.attrs.get(NAME, "model.py")).name
    if not trust and source_hash(source) not in _trusted():
        raise SettingsError(
            "model",
            f"{name} in the trajectory, which has not run on this computer",
            f"--model {name} (your own copy), or --trust-model to run the Python code"
            " in the trajectory",
        )
    model = _run_source(Path(name), source)
    _trust(source)
    return model


def _run_source(path: Path, source: str) -> ModelFile:
    """The functions that the source of a model file defines. Raises SettingsError."""
    module = run_source(path, source, "model")
    names = [name for name in MODEL_FUNCTIONS if hasattr(module, name)]
    if not names:
        raise SettingsError("model", f"{path} without any of them", MODEL_FILE)
    functions = {name: getattr(module, name) for name in names}
    modulus = getattr(module, "modulus", 0)
    with reported_errors(path, "the file", "model"):
        return ModelFile(**functions, modulus=modulus, path=path, source=source)


# ------------------------------------------------------------------------------- trust


def _trust_file() -> Path | None:
    folder = user_cache_folder()
    return folder and folder / "model-files.txt"


def _trusted() -> set[str]:
    """SHA-256 hashes of the model files that have run on this computer."""
    file = _trust_file()
    try:
        return set(file.read_text("utf-8").split()) if file else set()
    except OSError:
        return set()


def _trust(source: str) -> None:
    """Note that a source has run on this computer. Without a writable home folder, it
    must be named again."""
    file = _trust_file()
    if file is None or source_hash(source) in _trusted():
        return
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as hashes:
            hashes.write(source_hash(source) + "\n")
