"""A new recording of a model: its options, and their checks."""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
import xarray as xr

from dynamics.recording.embedding_gradient import GRADIENT, EmbeddingGradient
from dynamics.recording.metrics import Metrics
from dynamics.recording.model_file import ModelFile, embedding_of, load_model_file
from dynamics.recording.model_recorder import ModelRecorder, OpenSchedule
from dynamics.recording.moments import SecondMoments
from dynamics.recording.observed_training import ObservedTraining
from dynamics.recording.processes import (
    check_whole_parameters,
    inner_module,
    is_first_process,
)
from dynamics.recording.quantities import (
    BUFFER,
    LEARNING_RATE,
    LEARNING_RATES,
    MOMENT_UPDATES,
    NUMBER_NAMES,
    OPTIMIZER_NUMBERS,
    PARAMETER,
    SECOND_MOMENT,
    TRAINED,
    OwnQuantity,
    ParameterView,
    Quantity,
    as_array,
    check_initialised,
    check_mapping,
    check_residues,
    checked_shape,
    dims_and_coords,
    named_tensors,
    parameter_view,
    plain_name,
    read_quantities,
    recorded_weights,
    state_signature,
    variable_dims,
)
from dynamics.recording.recorded_activations import ProbeActivations
from dynamics.recording.recorded_network import check_model
from dynamics.recording.recording import Recording
from dynamics.recording.recording_elsewhere import RecordingElsewhere
from dynamics.recording.training_state import check_states, undisturbed
from dynamics.recording.update_norms import Layers, ModelLayers
from dynamics.settings import (
    MAX_STEPS,
    RecordedSettings,
    SettingsError,
    check_integer,
    check_real,
)
from dynamics.trajectory.description import (
    RunDescription,
    describe_origin,
    identity_of,
    seeds_of,
)
from dynamics.trajectory.netcdf import check_trajectory_path
from dynamics.trajectory.schema import DEFINITIONS, EMBEDDING_LAYER


def record(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    path: str | Path,
    *,
    every: int = 1,
    embedding: Quantity | None = None,
    modulus: int = 0,
    variables: Mapping[str, Quantity] | None = None,
    weights: bool = False,
    moments: bool = False,
    embedding_gradient: bool = False,
    activations: Mapping[str, str] | None = None,
    probe: Any = None,
    layers: Layers | None = None,
    evaluate: Callable[[torch.nn.Module], Mapping[str, Any]] | None = None,
    states: Mapping[str, Any] | None = None,
    restart_every: int = 0,
    seed: int | None = None,
    epoch_steps: int = 0,
    overwrite: bool = False,
    model_file: ModelFile | str | Path | None = None,
) -> Recording:
    """Record a torch model while a loop of its own trains it.

    The result is a context manager around the loop, in which ``recording.step(loss=...,
    accuracy=...)`` is called after each update of the optimizer. The file is a
    trajectory of one run that every analysis reads. Of a training of several processes
    the first one records. docs/guides/recording-guarantees.md lists what is promised.

    Parameters
    ----------
    model : torch.nn.Module
        Of a model compiled by ``torch.compile``, the original module is recorded.
    optimizer : torch.optim.Optimizer or sequence of them
        The optimizers of the model; a step of the trajectory is an update of them.
        Others that are built later are followed in their steps.
    path : str or Path
        File to write, NAME.nc; a relative path is that of the present folder.
    every : int
        Updates between recorded frames. The state after the last update is recorded
        too.
    embedding : str, ParameterView or callable, optional
        The embedding (token, axis): the name of a parameter, a view of one, or a
        function of the model that returns a tensor. Analyses of structure need it.
    modulus : int
        Modulus N of the addition that the model learns, if its tokens are the numbers
        modulo N; the embedding then has N rows. Analyses compare the embedding with the
        classes i + j mod N: of another operation, such as i - j, they find circles,
        polygons and frequencies, but imperfections of grids, particles and the audit do
        not apply.
    variables : mapping of str to str, ParameterView or callable, optional
        Other tensors to record, by their names in the file. ``learning_rate`` is always
        recorded, by default that of the first parameter group of the first optimizer
        when `step` is called.
    weights : bool
        Record all trained parameters, as variables named ``parameter.NAME``, and what
        else the model computes with as ``buffer.NAME``: the floating-point buffers of
        its state dict, such as the running statistics of BatchNorm, and the parameters
        that no optimizer has or that do not require gradients at the beginning.
        Curvature needs them. Tensors that are not finite, such as masks, are left
        out.
    moments : bool
        Record Adam's second moments of the gradients of all trained parameters, divided
        by their bias corrections, as variables named ``second_moment.NAME`` (0 at the
        beginning). Curvature preconditioned by Adam needs them.
    embedding_gradient : bool
        Record the gradient of the embedding, which must be a parameter, as the
        optimizer uses it in the first update after each frame. The force audit
        (``analysis.audit``) needs it.
    activations : mapping of str to str, optional
        Modules whose outputs on the probe are recorded, such as ``{"mlp":
        "blocks.0.mlp"}``, as variables named ``activation.NAME``; of a tuple, its first
        tensor. They are those of eval mode, from one forward pass for each frame; of a
        module that is called several times, the last output.
    probe : tensor, tuple or dict, optional
        Fixed batch: the argument of the model, its arguments, or those by name.
    layers : mapping of str to str or sequence of str, optional
        Patterns of parameter names, such as ``{"mlp": "blocks.*.mlp.*"}``, of which one
        norm each is recorded. Default: each parameter is a layer.
    evaluate : callable, optional
        Called as ``evaluate(model)`` for each frame, without gradients, in the mode
        that the model has in `step`; returns
        ``{"loss": {"train": ..., "test": ...}, "accuracy": {...}}``, and further
        numbers by name. A split that it returns replaces that given to `step`. The
        training is afterwards as before the call.
    states : mapping of str to object, optional
        What the training depends on besides the model and optimizer, by name:
        schedulers, gradient scalers and other objects with ``state_dict`` and
        ``load_state_dict``, and generators of torch or NumPy.
    restart_every : int
        Keep exact restart states at multiples of this number of updates, for example at
        the ends of epochs, where a loop over a shuffled loader can begin again.
        Default: about one a minute, of which the last is kept.
    seed : int, optional
        Seed of the run in the file, by which runs of an ensemble are told apart.
        Default: ``torch.initial_seed()``.
    epoch_steps : int
        Updates in an epoch; 0 if the file is to have no epochs.
    overwrite : bool
        Replace an existing recording.
    model_file : ModelFile or path, optional
        Functions of the model for later analyses (`ModelFile`). The file contains their
        source, the weights are recorded, and the embedding and the modulus are those of
        the model file unless they are given.

    Returns
    -------
    Recording

    Raises
    ------
    SettingsError
        If arguments are not valid; the message lists all of them.

    Examples
    --------
    >>> import torch
    >>> from dynamics import open_trajectory, record
    >>> model = torch.nn.Sequential(torch.nn.Embedding(5, 2), torch.nn.Linear(2, 5))
    >>> optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    >>> tokens = torch.arange(5)
    >>> with record(model, optimizer, "mine.nc", every=10, embedding="0.weight", seed=0) as recording:
    ...     for _ in range(100):
    ...         loss = torch.nn.functional.cross_entropy(model(tokens), tokens)
    ...         optimizer.zero_grad()
    ...         loss.backward()
    ...         optimizer.step()
    ...         recording.step(loss=loss)
    >>> open_trajectory("mine.nc")["embedding"].shape
    (1, 11, 5, 2)
    """
    if not isinstance(model, torch.nn.Module):
        raise SettingsError("model", f"a {type(model).__name__}", "a torch.nn.Module")
    wrapper = model
    model = inner_module(model)
    check_whole_parameters(wrapper)
    if not is_first_process():
        return RecordingElsewhere(path)
    check_initialised(model)
    training = ObservedTraining(wrapper, optimizer, states)
    optimizers = training.optimizers
    quantities: dict[str, Quantity] = {}
    with undisturbed(wrapper) as restore, _CollectedErrors() as errors:
        functions = ModelFile()
        if model_file is not None:
            if not isinstance(model_file, ModelFile):
                model_file = load_model_file(model_file)
            restore()
            functions = model_file
            weights = True
            modulus = modulus or functions.modulus
            if embedding is None and functions.embedding is not None:
                embedding = functools.partial(_embedding_of, functions)
        if embedding is not None:
            quantities["embedding"] = embedding
        checked_path = errors.attempt(_checked_path, path)
        for name, value, low, high in (
            ("every", every, 1, MAX_STEPS),
            ("restart_every", restart_every, 0, MAX_STEPS),
            ("modulus", modulus, 0, MAX_STEPS),
            ("epoch_steps", epoch_steps, 0, MAX_STEPS),
            ("seed", seed or 0, 0, 2**62),
        ):
            errors.attempt(check_integer, name, value, low, high)
        errors.attempt(check_states, training.states)
        rate = float(training.rates[0][1])
        errors.attempt(check_real, "learning rate of the optimizer", rate)
        quantities[LEARNING_RATE] = OwnQuantity(training.learning_rate)
        if variables is not None:
            check_mapping("variables", variables, "quantities by name")
            quantities |= variables
        if activations:
            outputs = errors.attempt(ProbeActivations, model, activations, probe)
            quantities |= outputs.quantities if outputs else {}
        model_layers = errors.attempt(ModelLayers, model, optimizers, layers)
        shapes = {}
        for name, quantity in quantities.items():
            shapes[name] = errors.attempt(checked_shape, name, quantity, model)
            restore()
        if not errors.errors:
            errors.attempt(dims_and_coords, shapes)
            rows = shapes["embedding"][0] if embedding is not None else 0
            errors.attempt(check_residues, modulus, embedding, rows)
        second_moments = errors.attempt(SecondMoments, optimizers if moments else [])
        gradient = None
        if embedding_gradient:
            gradient = errors.attempt(EmbeddingGradient, embedding, model, optimizers)
        errors.raise_all()
        coords = dims_and_coords(shapes)[1]
        if gradient is not None:
            quantities[GRADIENT] = OwnQuantity(lambda model: gradient.last)
        trained = [
            name
            for layer in model_layers.names
            for name in model_layers.members(layer)
            if model_layers.parameters[name].requires_grad
        ]
        infinite = model_layers.not_finite()
        if infinite:
            what = f"{infinite}, of which a value is not finite"
            raise SettingsError("model", what, "finite parameters at the beginning")
        if weights:
            rates = functools.partial(training.learning_rates, trained)
            quantities |= recorded_weights(model, trained)
            quantities[LEARNING_RATES] = OwnQuantity(rates)
            training.keeps_numbers = True
            training.keep_settings()
            numbers = functools.partial(training.optimizer_numbers, trained)
            quantities[OPTIMIZER_NUMBERS] = OwnQuantity(numbers)
        if moments:
            updates = functools.partial(second_moments.updates, trained)
            quantities[MOMENT_UPDATES] = OwnQuantity(updates)
            for name in trained:
                if model_layers.parameters[name].is_complex():
                    found = f"{name} of {model_layers.parameters[name].dtype}"
                    raise SettingsError("moments", found, "real parameters")
                moment = functools.partial(second_moments.of, name)
                quantities[f"{SECOND_MOMENT}{name}"] = OwnQuantity(moment)
        for name, quantity in (variables or {}).items():
            if quantities[name] is not quantity:
                allowed = "a name that the file does not use otherwise"
                raise SettingsError("name of a variable", name, allowed)
        if model_file is not None:
            _check_functions(functions, model, quantities, modulus)
    parameters = list(model_layers.recorded_parameters().values())
    state = {plain_name(name): item for name, item in model.state_dict().items()}
    settings = RecordedSettings(
        model=type(model).__name__,
        optimizer="+".join(type(one).__name__ for one in optimizers),
        parameters=sum(item.numel() for item in parameters),
        signature=state_signature(state),
        time_step=rate,
        recorded=", ".join(quantities),
        modulus=modulus,
        epoch_steps=epoch_steps,
        **second_moments.common,
    )
    definitions = {"layers": json.dumps(model_layers.definition())}
    definitions |= {
        name: str(parameter_view(quantity))
        for name, quantity in quantities.items()
        if isinstance(quantity, str | ParameterView)
        and not name.startswith((PARAMETER, BUFFER))
    }
    if activations and outputs:
        definitions["activations, probe"] = outputs.definition()
    seed = torch.initial_seed() % 2**62 if seed is None else seed
    identity = identity_of(settings, 1, seed, every, device=parameters[0].device.type)
    origin = describe_origin(settings, identity, MAX_STEPS, torch.get_num_threads(), 1)
    attributes = {
        **origin,
        EMBEDDING_LAYER: _embedding_layer(model_layers, quantities.get("embedding")),
        **functions.attributes(modulus),
        TRAINED: json.dumps(trained),
        **({OPTIMIZER_NUMBERS: json.dumps(NUMBER_NAMES)} if weights else {}),
        DEFINITIONS: json.dumps(definitions),
    }
    seeds = seeds_of(identity)
    description = RunDescription({}, {}, {}, seeds, rate, epoch_steps, attributes)
    schedule = OpenSchedule(MAX_STEPS, every, restart_every=restart_every)
    return Recording(
        settings,
        training,
        model_layers,
        quantities,
        second_moments if moments else None,
        gradient,
        Metrics(training, evaluate, {*quantities, *coords}),
        ModelRecorder(checked_path, description, schedule, identity, overwrite),
        definitions,
    )


def _embedding_of(functions: ModelFile, model: torch.nn.Module) -> torch.Tensor:
    """The embedding (token, axis) of a module by a model file."""
    return embedding_of(functions, model.state_dict())


def _check_functions(
    functions: ModelFile,
    model: torch.nn.Module,
    quantities: Mapping[str, Quantity],
    modulus: int,
) -> None:
    """Call the functions of a model file with the tensors that are recorded. Raises
    SettingsError."""
    names = [name for name in quantities if name.startswith((PARAMETER, BUFFER))]
    tensors = read_quantities({name: quantities[name] for name in names}, model)
    variables = {
        name: (
            ("run", "step", *variable_dims(name, tensor.shape, names)),
            as_array(tensor)[None, None],
        )
        for name, tensor in tensors.items()
    }
    check_model(xr.Dataset(variables, attrs={"modulus": modulus}), functions)


class _CollectedErrors:
    """Collects the errors of several checks, and raises one that lists them all."""

    def __enter__(self) -> Self:
        self.errors: list[SettingsError] = []
        return self

    def attempt(self, check: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a check, or None if it raises SettingsError."""
        try:
            return check(*arguments)
        except SettingsError as error:
            self.errors.append(error)
            return None

    def raise_all(self) -> None:
        """Raise the errors so far, if there are any."""
        if len(self.errors) > 1:
            error = SettingsError("", "", "")
            error.args = ("\n".join(map(str, self.errors)),)
            raise error
        if self.errors:
            raise self.errors[0]

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            self.raise_all()


def _checked_path(path: str | Path) -> Path:
    """The path of the file to write. Raises SettingsError, which names the argument."""
    try:
        return check_trajectory_path(path).absolute()
    except SettingsError as error:
        raise SettingsError("path", error.found, error.allowed) from None


def _embedding_layer(layers: ModelLayers, embedding: Quantity | None) -> str:
    """The layer that contains the parameter of the embedding; an empty name if there is
    none."""
    if not isinstance(embedding, str | ParameterView):
        return ""
    parameter = named_tensors(layers.model).get(parameter_view(embedding).name)
    return layers.layers.get(id(parameter), "")
