"""Curvature of recorded models by products with vectors, against whole Hessians and
curvlinops; the command."""

import copy
import signal

import numpy as np
import pytest
import torch
import xarray as xr
from curvlinops import HessianLinearOperator
from numpy.testing import assert_allclose

import dynamics
from analysis import Curvature
from analysis.linearization import model_spectrum, model_spectrum_table
from analysis.linearization.loss_operators import hessian_operator
from analysis.linearization.model_spectrum import SpectrumOptions, model_curvature
from analysis.linearization.operator_spectra import estimate_trace
from dynamics.errors import TrajectoryError
from dynamics.networks.derivatives import differentiable_twice
from dynamics.recording.model_loss import ModelLoss, RecordedModel, load_loss
from dynamics.settings import SettingsError
from tests.analysis.own_networks import as_recorded, model_of

PAIRS = torch.cartesian_prod(torch.arange(7), torch.arange(7))
LABELS = PAIRS.sum(1) % 7


class Attention(torch.nn.Module):
    """Seven tokens, attention, a hidden layer; its usual kernel has no second
    derivative."""

    def __init__(self, width=8, hidden=16):
        super().__init__()
        self.embed = torch.nn.Embedding(7, width)
        self.attention = torch.nn.MultiheadAttention(width, 2, batch_first=True)
        self.hidden = torch.nn.Linear(2 * width, hidden)
        self.out = torch.nn.Linear(hidden, 7)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.out(torch.tanh(self.hidden(x.flatten(1))))


def model_loss(model, batches=None):
    """The cross-entropy of a model on pairs of numbers, in equal batches."""

    def loss(parameters, batch):
        logits = torch.func.functional_call(model, parameters, (batch[0],))
        return torch.nn.functional.cross_entropy(logits, batch[1])

    return ModelLoss(loss, lambda: batches or [(PAIRS, LABELS)])


def record_training(path, model, steps=4, seed=0, nan_at=None, decay=1.0, **options):
    """Train with Adam and record the parameters and second moments; returns the
    optimizer. The learning rate decays by a factor at each update."""
    optimizer = torch.optim.Adam(
        model.parameters(), lr=0.02, betas=(0.8, 0.99), eps=1e-6
    )
    with dynamics.record(
        model, optimizer, path, weights=True, moments=True, seed=seed, **options
    ) as recording:
        for step in range(1, steps + 1):
            loss = torch.nn.functional.cross_entropy(model(PAIRS), LABELS)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            optimizer.param_groups[0]["lr"] *= decay
            if step == nan_at:
                with torch.no_grad():
                    next(model.parameters()).fill_(float("nan"))
            recording.step(loss=loss.item())
            if recording.diverged_at is not None:
                break
    return optimizer


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A recorded training of about 700 parameters, its file, its optimizer and its
    loss."""
    path = tmp_path_factory.mktemp("model") / "mine.nc"
    torch.manual_seed(2)
    model = Attention()
    optimizer = record_training(path, model)
    return path, model, optimizer, model_loss(model)


def test_both_ends_of_the_spectrum_are_those_of_the_whole_hessian_and_of_curvlinops(
    tmp_path,
):
    torch.manual_seed(0)
    model = Attention(6, 24)
    record_training(tmp_path / "mine.nc", model, steps=20, every=20)
    given = model_loss(model.eval())
    options = SpectrumOptions(eigenvalues=3)
    trajectory = dynamics.open_trajectory("mine.nc")
    result = model_curvature(trajectory, given, [1], options).isel(run=0, step=0)
    recorded_model = RecordedModel(trajectory, given)
    assert recorded_model.size > 500
    with differentiable_twice():
        row = recorded_model.row(0, 1)
        ours = hessian_operator(recorded_model, 0, 1)
        values, vectors = torch.linalg.eigh(torch.from_numpy(ours.matrix))
        expected = values.numpy()[[0, 1, 2, -3, -2, -1]]
        assert_allclose(result["eigenvalue"], expected, rtol=1e-5)
        assert (result["residual"] < 1e-6).all()
        assert abs(result["trace"] - float(values.sum())) < 4 * result["trace_error"]
        gradient = torch.func.grad(recorded_model.losses(0, 1)[0])(row)
    assert result["gradient_size"] == pytest.approx(float(gradient.norm()))
    fractions = (vectors.T @ gradient / gradient.norm()) ** 2
    assert result["gradient_fraction"] == pytest.approx(
        float(fractions[-3:].sum()), rel=1e-4
    )
    assert result["relative_sharpness"] == pytest.approx(
        float(values[-1]) * 0.02 / 2, rel=1e-5
    )
    model.double().load_state_dict(recorded_model.unflatten(row))
    parameters = list(model.parameters())
    cross_entropy = torch.nn.CrossEntropyLoss()
    with differentiable_twice():
        operator = HessianLinearOperator(
            model,
            cross_entropy,
            parameters,
            [(PAIRS, LABELS)],
            check_deterministic=False,
        )
        for vector in vectors.T[[0, -1]]:
            theirs = operator @ vector.contiguous()
            difference = ours @ vector.numpy() - theirs.numpy()
            assert np.linalg.norm(difference) < 1e-12 * values[-1]


def planted(values, generator):
    """A symmetric matrix with these eigenvalues, as a product with vectors, and its
    eigenvectors."""
    turn = np.linalg.qr(generator.standard_normal((len(values), len(values))))[0]
    matrix = torch.from_numpy((turn * values) @ turn.T)
    return lambda vector: matrix @ vector, turn


@pytest.fixture
def quadratic(generator):
    """A recorded quadratic loss whose update is planted along its second and its last
    but one eigenvector."""
    values = np.concatenate([[-2.0, -1.0], np.linspace(0.1, 0.5, 16), [4.0, 5.0]])
    product, turn = planted(values, generator)
    weight = torch.nn.Parameter(torch.from_numpy(3 * turn[:, -1] + 4 * turn[:, 5]))
    model = torch.nn.ParameterDict({"w": weight})
    with dynamics.record(
        model, torch.optim.SGD([weight], lr=0.25), "q.nc", weights=True
    ) as recording:
        weight.grad = torch.from_numpy(-4 * (0.6 * turn[:, 1] + 0.8 * turn[:, -2]))
        recording.training.optimizers[0].step()
        recording.step()
    loss = ModelLoss(
        lambda parameters, batch: parameters["w"] @ product(parameters["w"]) / 2,
        lambda: [None],
    )
    return dynamics.open_trajectory("q.nc"), loss, values


def test_fractions_of_a_planted_gradient_and_update(quadratic):
    trajectory, loss, values = quadratic
    result = model_curvature(
        trajectory, loss, [0, 1], SpectrumOptions(eigenvalues=2)
    ).isel(run=0)
    assert_allclose(result["eigenvalue"].values[0], [-2, -1, 4, 5], atol=1e-9)
    assert_allclose(result["update_along"].values[0], [0, 0.36, 0.64, 0], atol=1e-9)
    middle = 4 * values[5]
    assert result["gradient_fraction"].values[0] == pytest.approx(
        15**2 / (15**2 + middle**2)
    )
    assert result["update_fraction"].values[0] == pytest.approx(0.64)
    assert np.isnan(result["update_fraction"].values[1])
    assert result["relative_sharpness"].values[0] == pytest.approx(5 * 0.25 / 2)
    assert result["preconditioned_sharpness"].isnull().all()
    rough = SpectrumOptions(eigenvalues=2, precision="float32")
    assert_allclose(
        model_curvature(trajectory, loss_in_float32(loss), [0], rough)["eigenvalue"][
            0, 0
        ],
        [-2, -1, 4, 5],
        rtol=1e-5,
    )


def test_all_eigenvalues_of_a_small_model(quadratic):
    trajectory, loss, values = quadratic
    options = SpectrumOptions(eigenvalues=len(values))
    result = model_curvature(trajectory, loss, [0], options)
    result = result.isel(run=0, step=0)
    assert_allclose(result["eigenvalue"], np.sort(values), atol=1e-12)
    assert (result["residual"] < 1e-12).all()
    assert result["trace"] == pytest.approx(values.sum())
    assert result["trace_error"] == 0
    assert result["gradient_fraction"] == pytest.approx(1)


def loss_in_float32(given):
    return ModelLoss(
        lambda parameters, batch: given.loss(
            {"w": parameters["w"].double()}, batch
        ).float(),
        given.batches,
    )


def test_second_moments_are_those_of_the_optimizer_and_precondition_the_hessian(
    recorded,
):
    path, model, optimizer, given = recorded
    trajectory = dynamics.open_trajectory(path)
    settings = dynamics.read_settings(trajectory)
    assert (settings.beta1, settings.eps) == (0.8, 1e-6)
    for name, parameter in model.named_parameters():
        assert not trajectory[f"second_moment.{name}"][0, 0].any()
        expected = optimizer.state[parameter]["exp_avg_sq"] / (1 - 0.99**4)
        assert_allclose(trajectory[f"second_moment.{name}"][0, 4], expected, rtol=1e-6)
    result = model_curvature(
        trajectory, given, [0, 4], SpectrumOptions(eigenvalues=1)
    ).isel(run=0)
    recorded_model = RecordedModel(trajectory, given)
    hessian = hessian_operator(recorded_model, 0, 4).matrix
    moments = np.concatenate(
        [
            trajectory[f"second_moment.{name}"][0, 4].values.ravel()
            for name in recorded_model.shapes
        ]
    )
    adam = (1 - 0.8**4) * (np.sqrt(moments.astype(np.float64)) + 1e-6)
    expected = np.linalg.eigvals(hessian / adam[:, None]).real.max()
    assert result["preconditioned_sharpness"].values[1] == pytest.approx(
        expected, rel=1e-5
    )
    assert result["relative_preconditioned"].values[1] == pytest.approx(
        expected * 0.02 * 0.2 / 3.6, rel=1e-5
    )
    assert np.isnan(result["preconditioned_sharpness"].values[0])


def test_batches_have_equal_weights(recorded):
    path, model, _, whole = recorded
    trajectory = dynamics.open_trajectory(path)
    order = torch.randperm(42)
    parts = model_loss(model, [(PAIRS[word], LABELS[word]) for word in order.split(14)])
    whole = model_loss(model, [(PAIRS[:42], LABELS[:42])])
    one, several = (
        model_curvature(trajectory, item, [2], SpectrumOptions(1))
        for item in (whole, parts)
    )
    for name in ("loss", "eigenvalue", "trace", "gradient_fraction"):
        assert_allclose(one[name], several[name], rtol=1e-6)


@pytest.mark.filterwarnings("ignore:the loss is not finite")
def test_frames_after_divergence_are_nan_and_recorded_learning_rates_are_used(tmp_path):
    for seed, nan_at in ((0, None), (1, 3)):
        torch.manual_seed(seed)
        model = Attention(4, 4)
        path = tmp_path / f"{seed}.nc"
        record_training(path, model, seed=seed, nan_at=nan_at, decay=0.5)
    trajectory = dynamics.open_trajectory("?.nc")
    result = model_curvature(trajectory, model_loss(model), [1, 4], SpectrumOptions(1))
    assert np.isfinite(result["eigenvalue"]).all(axis=-1).values.tolist() == [
        [True, True],
        [True, False],
    ]
    assert np.isnan(result["loss"].values[1, 1])
    rates = 0.02 * 0.5 ** np.array([1, 4])
    known = np.isfinite(result["sharpness"])
    expected = (result["sharpness"] * rates / 2).values[known]
    assert_allclose(result["relative_sharpness"].values[known], expected)


# ------------------------------------------------------------------- layers with modes


class Normalised(torch.nn.Module):
    """A convolution, BatchNorm, and a linear layer."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(1, 3, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.out = torch.nn.Linear(3, 2)
        self.register_buffer("mask", torch.full((2, 2), -torch.inf))

    def forward(self, x):
        return self.out(torch.tanh(self.norm(self.conv(x))).mean(-1))


@pytest.fixture(scope="module")
def normalised(tmp_path_factory):
    """A recording of a model with BatchNorm, its checkpoints as a trajectory, and its
    loss."""
    folder = tmp_path_factory.mktemp("normalised")
    torch.manual_seed(1)
    model = Normalised()
    x = 3 * torch.randn(32, 1, 6) + 1
    labels = torch.randint(0, 2, (32,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    path = folder / "mine.nc"
    with dynamics.record(model, optimizer, path, weights=True) as recording:
        for step in range(5):
            state = {
                name: v for name, v in model.state_dict().items() if name != "mask"
            }
            torch.save(state, folder / f"model-{step}.pt")
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), labels).backward()
            optimizer.step()
            recording.step()

    recorded = dynamics.open_trajectory(path).isel(step=slice(5))
    collected = dynamics.collect_checkpoints([folder], weights=True)
    given = model_loss(model, [(x, labels)])
    return {"recorded": recorded, "collected": collected}, given, model


class PlainNorm(torch.nn.BatchNorm1d):
    """BatchNorm by its definition. Second derivatives of torch's own one in train mode
    are wrong if the outer ones are forward ones, as those of torch.func.hessian
    (torch 2.13)."""

    def forward(self, x):
        mean = self.running_mean
        variance = self.running_var
        if self.training:
            mean = x.mean((0, 2))
            variance = x.var((0, 2), correction=0)
        scale = self.weight / (variance + self.eps).sqrt()
        return (x - mean[:, None]) * scale[:, None] + self.bias[:, None]


def expected_hessian(trajectory, frame, given, mode):
    """By torch.func.hessian."""
    model = Normalised()
    model.norm = PlainNorm(3)
    model.double().train(mode == "train")
    state = {
        name.partition(".")[2]: torch.from_numpy(values[0, frame].values).double()
        for name, values in trajectory.data_vars.items()
        if name.startswith(("parameter.", "buffer."))
    }
    names = [name for name, _ in model.named_parameters()]
    buffers = {name: value for name, value in state.items() if name not in names}
    ((x, labels),) = given.batches()

    def loss(parameters):
        logits = torch.func.functional_call(model, parameters | buffers, (x.double(),))
        return torch.nn.functional.cross_entropy(logits, labels)

    blocks = torch.func.hessian(loss)({name: state[name] for name in names})
    sizes = {name: state[name].numel() for name in names}
    rows = [
        torch.cat([blocks[a][b].reshape(sizes[a], sizes[b]) for b in names], 1)
        for a in names
    ]
    return torch.cat(rows).numpy()


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("source", ["recorded", "collected"])
def test_batch_normalisation_has_the_hessian_of_the_mode(normalised, source, mode):
    trajectories, given, model = normalised
    trajectory = trajectories[source]
    options = SpectrumOptions(2, mode=mode)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    result = model_curvature(trajectory, given, [0, 4], options)
    for place, frame in enumerate((0, 4)):
        expected = np.linalg.eigvalsh(expected_hessian(trajectory, frame, given, mode))
        assert_allclose(
            result["eigenvalue"].values[0, place],
            expected[[0, 1, -2, -1]],
            rtol=1e-5,
            atol=1e-7,
        )
    statistics = {"train": "batch", "eval": "recorded"}[mode]
    assert (result.attrs["mode"], result.attrs["normalisation"]) == (mode, statistics)
    legend = model_spectrum_table.model_legend(result)
    assert f"Mode of the model: {mode}; normalising layers use the " in legend
    assert model.training
    assert all(
        torch.equal(value, before[name]) for name, value in model.state_dict().items()
    )


def test_both_modes_of_batch_normalisation_differ_and_the_default_is_that_of_the_model(
    normalised,
):
    trajectories, given, model = normalised
    sharpness = {}
    for mode in ("train", "eval", None):
        options = SpectrumOptions(1, mode=mode)
        result = model_curvature(trajectories["recorded"], given, [2], options)
        sharpness[mode] = result["sharpness"].item()
    assert sharpness["train"] == sharpness[None] != pytest.approx(sharpness["eval"])
    assert "buffer.mask" not in trajectories["recorded"]
    bare = trajectories["recorded"].drop_vars(
        ["buffer.norm.running_mean", "buffer.norm.running_var"]
    )
    own = model_loss(copy.deepcopy(model).double(), given.batches())
    result = model_curvature(bare, own, [2], SpectrumOptions(1, mode="eval"))
    assert "are not those of the frame" in model_spectrum_table.model_legend(result)


def test_a_mode_without_modules_and_buffers_that_change_in_place_are_reported(
    normalised, quadratic
):
    trajectory, loss, _ = quadratic
    with pytest.raises(SettingsError, match="mode: found eval, allowed is no value"):
        model_curvature(trajectory, loss, [0], SpectrumOptions(1, mode="eval"))

    mean = torch.zeros(3, dtype=torch.float64)

    def in_place(parameters, batch):
        with torch.no_grad():
            mean.copy_(parameters["norm.weight"])
        return (parameters["norm.weight"] - mean).square().sum()

    loss = ModelLoss(in_place, lambda: [None])
    with pytest.raises(SettingsError, match="central difference of the gradient"):
        model_curvature(normalised[0]["recorded"], loss, [0])


# ------------------------------------------------------------------------ the loss file

HEAD = "import torch\n"
BATCHES = (
    "def batches(): return [(torch.zeros(3, 2, dtype=torch.long), torch.zeros(3,"
    " dtype=torch.long))]\n"
)
SUM = (
    "def loss(parameters, batch): return sum((each**2).sum() for each in"
    " parameters.values())\n"
)
BAD_FILES = {
    "syntax": ("def loss(:\n", r"line 1: the file raises SyntaxError"),
    "import": (
        "\nimport no_such_module\n",
        r"line 2: the file raises ModuleNotFoundError",
    ),
    "no loss": (HEAD + BATCHES, "without a function loss"),
    "no batches": (HEAD + SUM, "without a function batches"),
    "empty": (SUM + "def batches(): return []\n", "no batch"),
    "raises": (
        HEAD
        + BATCHES
        + "def loss(parameters, batch):\n    return parameters['nope']\n",
        r"line 4: .*KeyError",
    ),
    "vector": (
        HEAD + BATCHES + "def loss(parameters, batch): return batch[1].double()\n",
        r"shape \(3,\)",
    ),
    "number": (
        HEAD + BATCHES + "def loss(parameters, batch): return 1.0\n",
        "returns float",
    ),
    "random": (HEAD + BATCHES + SUM.rstrip() + " + torch.randn(())\n", "dropout"),
    "constant": (
        HEAD + BATCHES + "def loss(parameters, batch): return torch.tensor(1.0)\n",
        "does not depend",
    ),
    "dtype": (
        HEAD
        + BATCHES
        + "def loss(parameters, batch): return (torch.ones(1, 7) @ parameters['embed.weight']).sum()\n",
        r"\.double\(\)",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_loss_files_are_refused_in_one_line(recorded, typed, tmp_path, name):
    text, message = BAD_FILES[name]
    (tmp_path / "bad.py").write_text(text)
    code, _, errors = typed(
        "analysis.curvature",
        recorded[0],
        "--loss",
        "bad.py",
        "--out",
        "o.nc",
    )
    assert code == 2
    assert errors.startswith("error: --loss: found ")
    assert len(errors.splitlines()) == 1
    with pytest.raises(SettingsError, match=message):
        RecordedModel(
            dynamics.open_trajectory(recorded[0]), load_loss(tmp_path / "bad.py")
        )
    assert not (tmp_path / "o.nc").exists()


# -------------------------------------------------------------------------- the command

LOSS_FILE = """
import torch
from tests.analysis.linearization.test_model_spectrum import LABELS, PAIRS, Attention

model = Attention().eval()

def loss(parameters, batch):
    inputs, labels = batch
    return torch.nn.functional.cross_entropy(torch.func.functional_call(model, parameters, (inputs,)), labels)

def batches():
    yield PAIRS, LABELS
"""


def test_the_command_prints_writes_and_draws(recorded, typed, tmp_path):
    (tmp_path / "my_loss.py").write_text(LOSS_FILE)
    words = (
        "--loss",
        tmp_path / "my_loss.py",
        "--at",
        0,
        2,
        "--eigenvalues",
        2,
        "--out",
        tmp_path / "found.nc",
    )
    code, out, errors = typed("analysis.curvature", recorded[0], *words)
    assert (code, errors) == (0, "")
    assert out.index("products of the Hessian") < out.index("update in leading 2, %")
    assert "tolerance 1e-06" in out
    assert "same data" not in out
    assert (tmp_path / "found.png").stat().st_size > 20_000
    with xr.open_dataset("found.nc") as result:
        assert result.attrs["title"] == "Curvature of a recorded model"
        trajectory = dynamics.open_trajectory(recorded[0])
        assert result["loss"][0].values == pytest.approx(
            trajectory["loss"][0, [1, 3], 0].values, rel=1e-5
        )  # one later
        expected = model_curvature(trajectory, recorded[3], [0, 2], SpectrumOptions(2))
        assert_allclose(result["eigenvalue"], expected["eigenvalue"], rtol=1e-9)


def test_an_interrupted_command_writes_the_frames_that_are_measured(
    recorded, typed, tmp_path, monkeypatch
):
    (tmp_path / "my_loss.py").write_text(
        LOSS_FILE.replace("return torch", "return 3 * torch")
    )
    traces = []

    def interrupt_the_second(*words):
        traces.append(estimate_trace(*words))
        if len(traces) == 2:
            signal.raise_signal(signal.SIGINT)
        return traces[-1]

    monkeypatch.setattr(model_spectrum, "estimate_trace", interrupt_the_second)
    words = (
        "--loss",
        tmp_path / "my_loss.py",
        "--eigenvalues",
        1,
        "--out",
        tmp_path / "found.nc",
    )
    code, out, _ = typed("analysis.curvature", recorded[0], *words)
    assert code == 130
    assert "4 frames are not measured" in out
    assert "for train: same data, mode and buffers?" in out
    with xr.open_dataset("found.nc") as result:
        assert np.isfinite(result["sharpness"]).values.tolist() == [
            [True, False, False, False, False]
        ]


def test_a_model_file_without_loss_gives_the_cross_entropy_of_its_training_pairs():
    trajectory = dynamics.simulate(
        dynamics.ModularSettings(n=5, hidden=6),
        runs=1,
        steps=4,
        every=1,
        seed=2,
    )
    model = model_of(trajectory)
    recorded = as_recorded(trajectory)
    given = dynamics.recorded_loss(recorded, model)
    row = RecordedModel(recorded, given).row(0, 1)
    loss = RecordedModel(recorded, given).losses(0, 1)[0]
    expected = np.linalg.eigvalsh(torch.func.hessian(loss)(row).numpy())
    result = model_curvature(recorded, given, [1], SpectrumOptions(2))
    assert result["sharpness"].item() == pytest.approx(expected[-1], rel=1e-6)
    value = trajectory["loss"].sel(split="train").isel(step=1)
    assert float(loss(row)) == pytest.approx(value.item(), rel=1e-4)
    own = model_of(
        trajectory, loss=lambda parameters, batch: 3 * given.loss(parameters, batch)
    )
    tripled = dynamics.recorded_loss(recorded, own)
    (batch,) = tripled.batches()
    parameters = RecordedModel(recorded, given).unflatten(row)
    assert tripled.loss(parameters, batch) == 3 * given.loss(parameters, batch)
    with pytest.raises(SettingsError, match=r"without loss\(parameters, batch\)"):
        dynamics.recorded_loss(recorded, model_of(trajectory, batches=lambda: [batch]))
    broken = ModelLoss(
        lambda parameters, batch: given.loss(parameters, batch) * torch.nan,
        given.batches,
    )
    with pytest.raises(SettingsError, match="returns nan at the first frame"):
        RecordedModel(recorded, broken)
    with pytest.raises(SettingsError, match=r"without training_pairs"):
        dynamics.recorded_loss(recorded, model_of(trajectory, training_pairs=None))


def test_errors_of_a_model_file_name_its_option():
    trajectory = dynamics.simulate(
        dynamics.ModularSettings(n=5, hidden=6), runs=1, steps=2, every=1
    )
    own = model_of(
        trajectory,
        loss=lambda parameters, batch: parameters["embedding"].sum() * torch.rand(()),
    )
    recorded = as_recorded(trajectory)
    given = dynamics.recorded_loss(recorded, own)
    with pytest.raises(SettingsError, match=r"^model: .*model\.eval\(\) in the file"):
        RecordedModel(recorded, given)


@pytest.mark.parametrize(
    ("create", "lacks"),
    [
        (lambda each: torch.optim.SGD(each, lr=0.1, momentum=0.9), 0),
        (lambda each: torch.optim.Adam(each, lr=0.1), 1),
        (lambda each: torch.optim.Rprop(each, lr=0.1), 1),
    ],
)
def test_moments_are_asked_for_where_the_optimizer_may_have_them(create, lacks):
    model = torch.nn.Linear(2, 1)
    optimizer = create(model.parameters())
    inputs = torch.ones(3, 2)
    with dynamics.record(model, optimizer, "m.nc", weights=True) as recording:
        model(inputs).sum().backward()
        optimizer.step()
        recording.step()
    loss = ModelLoss(
        lambda parameters, batch: (
            torch.func.functional_call(model, parameters, (batch,)) ** 2
        ).mean(),
        lambda: [inputs],
    )
    result = model_curvature(dynamics.open_trajectory("m.nc"), loss, [0])
    assert result.attrs["lacks_moments"] == lacks


def test_other_files_and_options_are_refused_in_one_line(recorded, typed, monkeypatch):
    code, _, errors = typed("analysis.curvature", recorded[0])
    assert (code, errors.count("\n")) == (2, 1)
    assert "--loss: found none for a recorded model" in errors
    code, _, errors = typed("analysis.curvature", recorded[0], "--loss", "nowhere.py")
    assert (code, "nowhere.py" in errors) == (2, True)
    with pytest.raises(
        SettingsError,
        match="probes: found 3, allowed is no value for the system particles",
    ):
        particles = dynamics.simulate(dynamics.ParticleSettings(n=5), runs=1, steps=1)
        Curvature(spectrum=SpectrumOptions(probes=3)).measure(particles)
    bare = dynamics.open_trajectory(recorded[0])
    bare = bare.drop_vars([name for name in bare.data_vars if "." in name])
    with pytest.raises(
        TrajectoryError, match=r"parameter.NAME: missing; .*weights=True"
    ):
        model_curvature(bare, recorded[3], [0])
    monkeypatch.setattr(model_spectrum, "MOST_PARAMETERS", 100)
    with pytest.raises(SettingsError, match="eigenvalues: found 400"):
        model_curvature(
            dynamics.open_trajectory(recorded[0]),
            recorded[3],
            [0],
            SpectrumOptions(400),
        )


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (lambda each: torch.optim.SGD(each, lr=0.1), "moments: found SGD"),
        (
            lambda each: torch.optim.Adam(
                [{"params": [one], "eps": 10.0**-p} for p, one in enumerate(each)]
            ),
            "same beta1",
        ),
    ],
)
def test_second_moments_of_other_optimizers_are_refused(create, message):
    model = torch.nn.Linear(2, 2)
    with pytest.raises(SettingsError, match=message):
        dynamics.record(
            model, create(list(model.parameters())), "mine.nc", moments=True
        )
