"""What moves on the explorer's page: particles, and a network that learns beside
them."""

import dataclasses
import re
import time
from unittest import mock

import numpy as np
import pytest
from bokeh.document import Document
from tornado.escape import parse_qs_bytes

from analysis.explorer import kernel_warmup, url_state
from analysis.explorer import page as pages
from analysis.explorer.live_particles import NUDGE_LENGTH, ParticlesPage, nearest_basis
from analysis.explorer.live_run import (
    EPOCHS_PER_STEP,
    EmbeddingStructure,
    LiveTransformer,
    ParticleRun,
    TrainingRun,
)
from analysis.explorer.live_training import TrainingPage
from analysis.explorer.live_transformer import TransformerPage
from analysis.explorer.player import FRAME_SECONDS as SECONDS_A_FRAME
from analysis.explorer.player import Player, advance_within_time
from analysis.panels.run_scene import build_scene
from dynamics import (
    MissingPackage,
    ModularSettings,
    ParticleSettings,
    TransformerSettings,
    branch,
    read_settings,
    simulate,
)
from dynamics.forces import CA, Force, law_json
from tests.analysis.explorer.player_state import PIXEL
from tests.browser import SECONDS, open_page

PARTICLES = ParticleSettings(fa=2.0, n=7)
NETWORK = ModularSettings(n=5, hidden=8, weight_decay=0.5)


def last(trajectory, name="embedding"):
    return trajectory[name].isel(run=0, step=-1).values


# ---------------------------------------------------------------------------- particles


@pytest.mark.parametrize(
    "change", [{"fa": 2.0}, {"n": 5, "dim": 3}, {"n": 6, "dim": 1}]
)
def test_live_particles_have_the_positions_of_a_simulation(change):
    settings = ParticleSettings(**change)
    run = ParticleRun(settings, seed=3)
    for steps in (1, 2, 7, 90):
        run.advance(steps)
    trajectory = simulate(settings, runs=1, seed=3, steps=100)
    assert np.array_equal(run.embedding, last(trajectory))
    assert np.float32(run.state.gradient_norm[0]) == last(trajectory, "gradient_norm")


def test_changed_force_constants_apply_immediately_and_other_changes_restart():
    run = ParticleRun(PARTICLES, seed=1)
    run.advance(20)
    forces = {"fa": 0.5, "ga": 1.5, "step_size": 0.002}
    assert not run.change_settings(**forces)
    run.advance(30)
    after = branch(
        simulate(PARTICLES, runs=1, seed=1, steps=20), 20, until=50, **forces
    )
    assert np.array_equal(run.embedding, last(after))
    for change in ({"n": 9}, {"dim": 3}, {"seed": 4}):
        assert run.change_settings(**change)
        assert run.state.step == 0
    start = simulate(ParticleSettings(**forces, n=9, dim=3), runs=1, seed=4, steps=0)
    assert np.array_equal(run.embedding, last(start))


def test_a_changed_law_applies_immediately_and_noise_is_that_of_a_branch():
    run = ParticleRun(PARTICLES, seed=1)
    run.advance(20)
    law = (*CA, Force("cohesion", "all", "difference", "-r", 0.01))
    changes = {"law": law, "temperature": 0.05}
    assert not run.change_settings(**changes)
    run.advance(30)
    source = simulate(PARTICLES, runs=1, seed=1, steps=20)
    after = branch(source, 20, until=50, **changes)
    assert np.array_equal(run.embedding, last(after))
    without = branch(source, 20, until=50, law=law)
    assert not np.allclose(run.embedding, last(without))


LAW_IN_LINK = (
    Force("like_attraction", "like", "difference", "-exp(-r)", "ga"),
    Force("turn", "all", "other", "c > 0.5", 0.25),
)


def test_a_link_and_python_repeat_an_own_law(monkeypatch, tmp_path):
    page = ParticlesPage(Document())
    monkeypatch.setattr(kernel_warmup, "kernels_ready", lambda kernels: True)
    chosen = {
        "attraction": "exp(-r)",
        "alignment": "c > 0.5",
        "temperature": 0.01,
        "n": 5,
        "seed": 3,
    }
    for values in (chosen, {**chosen, "law": law_json(LAW_IN_LINK)}):
        page.settings.param.update(**values)
        page.step()
        query = url_state.url_query(page.settings, {"tab": "particles"})
        again = ParticlesPage(Document())
        assert not url_state.read_url_state(
            parse_qs_bytes(query), again.settings, ("tab",)
        )
        assert again.run.settings == page.run.settings
        assert again.setting_values() == page.setting_values()
    assert page.run.settings.law == LAW_IN_LINK
    shown = [name for name, item in page.widgets.items() if item.visible]
    assert "ga" in shown
    assert not {"fa", "gr", "attraction", "law"} & set(shown)
    assert page.law_line.text == (
        "Forces: like_attraction, turn. Fixed constants: turn 0.25."
    )
    again.step()
    monkeypatch.chdir(tmp_path)
    exec(again.python(), result := {})
    trajectory = result["trajectory"]
    assert np.array_equal(trajectory["embedding"][0, -1], again.run.embedding)
    assert read_settings(trajectory) == again.run.settings


@pytest.mark.parametrize(
    "query",
    [
        "attraction=1/x",
        "repulsion=/etc/passwd.csv",
        "alignment=r",
        "law=runs/a.nc",
        "law=[{}]",
        "temperature=-1",
        "temperature=nan",
    ],
)
def test_a_link_with_a_wrong_law_is_refused(query):
    page = ParticlesPage(Document())
    (error,) = url_state.read_url_state(parse_qs_bytes(query), page.settings)
    assert error.field == query.split("=")[0]
    assert page.run.settings == ParticleSettings()


def test_a_strength_that_is_not_finite_is_refused_on_the_page(monkeypatch):
    page = ParticlesPage(Document())
    monkeypatch.setattr(kernel_warmup, "kernels_ready", lambda kernels: True)
    page.settings.repulsion = "log(-r)"
    page.frame(False)
    assert page.run.settings == ParticleSettings()
    assert "not finite at r" in page.clock.layout.text
    page.widgets["repulsion"].value = "1/r"
    page.frame(False)
    assert page.clock.layout.text == "step 0"
    page.widgets["repulsion"].value = "1/"
    assert page.widgets["repulsion"].title.startswith("repulsion of r: '1/'")
    assert page.settings.repulsion == "1/r"


def moved(x, token, position):
    """Positions after one particle has been placed: of mean 0 and variance 1 again."""
    x = x.copy()
    x[token] = position
    return (x - x.mean(axis=0)) / (x - x.mean(axis=0)).std()


def test_a_placed_particle_keeps_mean_and_variance():
    run = ParticleRun(PARTICLES, seed=1)
    expected = moved(run.embedding, 2, [3.0, -1.0])
    run.place_particle(2, np.array([3.0, -1.0]))
    assert np.allclose(run.embedding, expected)
    assert np.allclose(run.embedding.mean(axis=0), 0, atol=1e-12)
    assert np.isclose(run.embedding.std(), 1)
    run.advance(3)
    assert run.state.step == 3


def test_a_diverged_live_run_stops_with_a_message():
    page = ParticlesPage(Document())
    page.player.start()
    page.run.state = dataclasses.replace(
        page.run.state, step=3
    )  # as `advance` leaves one that diverged
    page.frame(True)
    assert not page.player.running
    assert page.clock.layout.text.startswith("step 0; the next step is not finite")


def test_a_view_turns_as_little_as_possible(generator):
    before, other = (np.linalg.qr(generator.normal(size=(4, 2)))[0].T for _ in range(2))
    basis = nearest_basis(other, before)
    assert np.allclose(basis @ basis.T, np.eye(2))
    assert np.allclose(basis.T @ basis, other.T @ other)
    distance = np.linalg.norm(basis - before)
    for angle in np.linspace(0, 2 * np.pi, 40):
        turned = (
            np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            @ other
        )
        assert (
            min(np.linalg.norm(turned - before), np.linalg.norm(turned[::-1] - before))
            >= distance - 1e-9
        )


@pytest.mark.parametrize(
    "change", [{"n": 2}, {"dim": 1}, {"dim": 3, "n": 9}, {"n": 70}, {"n": 199}]
)
def test_the_page_accepts_any_number_of_particles_and_axes(change):
    page = ParticlesPage(Document())
    kernel_warmup.mark_kernels_ready(
        kernel_warmup.settings_of_kernels(ParticleSettings(**change))
    )
    page.settings.param.update(**change)
    for _ in range(3):
        page.frame(True)
    page.move_particle_by_button(np.array([1.0, 0.0]))
    page.frame(True)
    assert page.run.state.step == 4
    assert page.dense == (page.run.settings.n == 199)


@pytest.mark.parametrize("running", [True, False])
def test_the_page_waits_for_the_kernels_of_a_dimension(monkeypatch, running):
    """A run goes on by itself when they are compiled."""
    page = ParticlesPage(Document())
    page.show()
    monkeypatch.setattr(kernel_warmup, "kernels_ready", lambda kernels: False)
    page.player.running = running
    page.settings.param.update(dim=3, fa=2.5)
    page.settings.param.update(fa=2.6)
    assert not page.player.running
    page.frame(False)
    assert page.clock.layout.text == "step 0; N = 17, D = 3: kernels are being compiled"
    assert page.run.settings.dim == 2
    assert len(page.document.session_callbacks) == 2  # one of them draws
    monkeypatch.setattr(kernel_warmup, "kernels_ready", lambda kernels: True)
    page.apply_settings_when_compiled()
    assert page.player.running == running
    page.frame(False)
    assert (page.run.embedding.shape, page.run.settings.fa) == ((17, 3), 2.6)
    assert page.clock.layout.text == "step 0"


@pytest.mark.parametrize(
    ("n", "is_shown", "step_size", "warning"),
    [
        (17, True, 0.003, ""),
        (59, True, 0.00025, ""),
        (3, True, 0.02, ""),
        (59, False, 0.003, "; the step size is large for N = 59: 0.0002"),
    ],
)
def test_the_step_size_follows_a_change_of_n_on_the_page(
    n, is_shown, step_size, warning
):
    page = ParticlesPage(Document())
    if is_shown:
        page.show()
    page.settings.n = n
    page.frame(False)
    assert page.run.settings.step_size == page.settings.step_size == step_size
    assert page.clock.layout.text.startswith("step 0" + warning)
    assert bool(warning) == ("large" in page.clock.layout.text)


@pytest.mark.parametrize(
    ("ratio", "imperfections", "words"),
    [
        (1.1, 85, "circle; 68 of 153 sums"),
        (3.0, 22, "grid; 131 of 153 sums"),
        (3.0, 90, "neither; 63 of 153 sums"),
    ],
)
def test_a_structure_in_words(ratio, imperfections, words):
    text = EmbeddingStructure(ratio < 1.2, ratio, imperfections, 153).text
    assert text == f"{words} are nearest to an equal one"


def test_kernels_are_compiled_in_another_process(monkeypatch):
    started, compiled = mock.Mock(), mock.Mock()
    started.return_value.poll.return_value = None
    monkeypatch.setattr(kernel_warmup.subprocess, "Popen", started)
    monkeypatch.setattr(kernel_warmup, "_under_way", {})
    six, seven, own, far = (
        kernel_warmup.settings_of_kernels(ParticleSettings(**change))
        for change in (
            {"n": 9, "dim": 6},
            {"n": 9, "dim": 7},
            {"repulsion": "1/r**3"},
            {"n": 199},
        )
    )
    assert not kernel_warmup.kernels_ready(six)
    assert not kernel_warmup.kernels_ready(six)
    started.return_value.poll.return_value = 0
    assert kernel_warmup.kernels_ready(six)
    kernel_warmup.mark_kernels_ready(seven)
    assert kernel_warmup.kernels_ready(seven)
    started.assert_called_once()
    monkeypatch.setattr(kernel_warmup, "compile_kernels", compiled)
    exec(started.return_value.stdin.write.call_args.args[0], {})
    compiled.assert_called_once_with(six)
    assert len({six, seven, own, far}) == 4


def test_a_frame_ends_after_its_time(monkeypatch):
    clock = iter(np.arange(0, 10, 0.4 * SECONDS_A_FRAME))
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    steps = []
    advance_within_time(100, steps.append, 5)
    assert steps == [5, 5, 5]
    advance_within_time(3, steps.append, 2)
    assert steps[3:] == [2, 1]


def test_a_hidden_page_has_no_callbacks():
    player = Player(Document(), lambda moving: None, *2 * [lambda: None])
    player.show()
    player.start()
    assert len(player.document.session_callbacks) == 1
    for briefly in (True, False):
        player.hide(briefly)
        assert not player.document.session_callbacks
        assert not player.running
        player.show()
        assert player.running == briefly
        assert len(player.document.session_callbacks) == 1


# ----------------------------------------------------------------------------- training


def test_a_live_network_has_the_weights_of_a_simulation():
    run = TrainingRun(NETWORK, seed=2)
    for epochs in (1, 4, 5, 30):
        run.advance(epochs)
    trajectory = simulate(NETWORK, runs=1, seed=2, steps=40, every=40)
    for name in run.system.network.variables:
        assert np.array_equal(run.variables[name], last(trajectory, name))
    assert np.array_equal(np.float32(list(run.loss.values())), last(trajectory, "loss"))


def test_changed_rates_apply_immediately_and_keep_the_moments():
    run = TrainingRun(NETWORK, seed=2)
    run.advance(20)
    assert not run.change_settings(lr=0.003, weight_decay=1.0)
    run.advance(20)
    before = simulate(NETWORK, runs=1, seed=2, steps=20, every=20)
    after = branch(before, 20, until=40, every=20, lr=0.003, weight_decay=1.0)
    assert np.array_equal(run.embedding.astype(np.float32), last(after))
    for change in ({"train_share": 0.5}, {"n": 6}, {"seed": 3}):
        assert run.change_settings(**change)
        assert run.time == 0


def test_particles_start_at_the_initial_embedding_of_the_network():
    run = TrainingRun(NETWORK, seed=2)
    np.save("first.npy", run.embedding)
    law = ParticleSettings(n=5, start="first.npy")
    run.advance(3 * EPOCHS_PER_STEP + 1)
    assert np.array_equal(
        run.particles.embedding, last(simulate(law, runs=1, seed=0, steps=3))
    )


def test_the_class_map_is_that_of_the_network():
    run = TrainingRun(NETWORK, seed=2)
    run.advance(200)
    pairs = np.stack(np.triu_indices(5), axis=-1)
    right = run.classes(run.embedding[pairs].sum(axis=1)) == pairs.sum(axis=1) % 5
    shares = {"train": 12, "validation": 3}
    assert right.sum() == round(
        sum(run.accuracy[split] * count for split, count in shares.items())
    )


def test_a_live_transformer_has_the_planes_and_logits_of_a_simulation():
    settings = TransformerSettings(n=7, dim=8, heads=2)
    run = LiveTransformer(settings, seed=2)
    run.advance(30)
    trajectory = simulate(settings, runs=1, seed=2, steps=30, every=30)
    assert np.array_equal(np.float32(list(run.loss.values())), last(trajectory, "loss"))
    scene = build_scene(trajectory, 0)
    titles = {panel.title: panel.name for panel in scene.panels}
    for k, places in run.strongest_planes(2):
        np.testing.assert_allclose(
            places,
            scene.arrays([-1])[titles[f"embedding at frequency {k}"]][0],
            atol=1e-5,
        )
    (image,) = scene.arrays([-1], ["correct_logits"]).values()
    total, difference = np.indices((7, 7))
    a, b = (total + difference) * 4 % 7, (total - difference) * 4 % 7
    np.testing.assert_allclose(run.correct_logits()[a, b], image[0], atol=1e-5)
    assert not run.change_settings(lr=0.01)
    assert run.change_settings(attention_rate=0.5)
    assert 0 <= run.gini < 1


def test_without_torch_the_page_explains_how_to_install_it(monkeypatch):
    error = MissingPackage(
        "training needs torch, which comes with: pip install 'training-dynamics[train]'"
    )
    makers = {"training": mock.Mock(side_effect=error)}
    page = pages.Page(Document(), makers, "training")
    assert "pip install" in page.made["training"].layout.text


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (ParticlesPage, {"fa": 2.0, "n": 7}),
        (TrainingPage, {"n": 5}),
        (TransformerPage, {"n": 5, "train_share": 0.8}),
    ],
)
def test_python_of_a_live_page_repeats_its_run(kind, change, monkeypatch, tmp_path):
    page = kind(Document())
    page.settings.param.update(seed=3, **change)
    for _ in range(4):
        page.step()
    code = page.python()
    monkeypatch.chdir(tmp_path)
    exec(code, result := {})
    assert np.array_equal(result["trajectory"]["embedding"][0, -1], page.run.embedding)
    assert result["scenes"][0].steps[result["frames"][0]] == 4
    assert (tmp_path / "view.png").exists()
    assert not code.startswith("#")
    page.settings.param.update(
        **({"fa": 3.0} if kind is ParticlesPage else {"lr": 0.002})
    )
    assert page.python().startswith("# Settings that were changed")


# ----------------------------------------------------------------------- in the browser


def shown_number(page, word):
    """The step or epoch that the page shows."""
    return int(
        page.get_by_text(re.compile(rf"^{word} \d+$")).first.inner_text().split()[1]
    )


def wait_until_later(page, word, than):
    """Wait until the page shows a later step or epoch."""
    end = time.monotonic() + SECONDS
    while shown_number(page, word) <= than:
        assert time.monotonic() < end, f"no {word} after {than}"
        page.wait_for_timeout(50)


def change_while_running(page, word, than, slider, key, query):
    """Start, change a slider after some steps or epochs, and pause after some more."""
    page.get_by_role("button", name="Start").click()
    wait_until_later(page, word, than)
    page.get_by_role("slider", name=slider).press(key)
    page.wait_for_function("(query) => location.search.includes(query)", arg=query)
    wait_until_later(page, word, shown_number(page, word))
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Start").wait_for()
    page.wait_for_timeout(300)


PLANE = "embedding and forces"
TOKENS = """(name) => {
  const {renderers} = Bokeh.documents[0].get_model_by_name(name)
  const {x, y} = renderers.find(({glyph}) => glyph.type == "Text").data_source.data
  return [...x, ...y]
}"""


def tokens(page):
    """Where tokens are drawn, (token, 2)."""
    return np.array(page.evaluate(TOKENS, PLANE), float).reshape(2, -1).T


def settled(page, expected, atol):
    """Where tokens are drawn, when that is where they are expected, or after the time
    for it."""
    for _ in range(10 * SECONDS):
        result = tokens(page)
        if result.shape == expected.shape and np.allclose(
            result, expected, atol=atol, equal_nan=False
        ):
            break
        page.wait_for_timeout(100)
    return result


@pytest.fixture
def page(explorer, chromium_page):
    """A browser page on which nothing is loaded yet, with the address of the explorer's
    server."""
    chromium_page.address = explorer.address
    return chromium_page


def opened(page, words):
    """Open a page of particles, and wait until they stand at their first places."""
    open_page(page, f"{page.address}?tab=particles{words}")
    page.get_by_text("step 0").wait_for()
    page.wait_for_function(f"() => ({TOKENS})('{PLANE}').every(Number.isFinite)")
    page.wait_for_timeout(
        200
    )  # the first frame is drawn anew when the browser is there
    return tokens(page)


def pixel(page, place):
    """Where on the page a place of the embedding's square is."""
    return page.evaluate(PIXEL, [PLANE, *map(float, place)])


def test_particles_start_pause_and_reset(page):
    first = opened(page, "")
    change_while_running(page, "step", 3, "alignment fₐ", "ArrowRight", "fa=1.1")
    paused, step = tokens(page), shown_number(page, "step")
    assert np.abs(paused - first).max() > 0.05
    page.wait_for_timeout(200)
    assert np.array_equal(tokens(page), paused)
    page.get_by_role("button", name="Step", exact=True).click()
    wait_until_later(page, "step", step)
    assert shown_number(page, "step") == step + 1
    page.get_by_role("button", name="Reset").click()
    page.get_by_text("step 0").wait_for()
    assert np.array_equal(settled(page, first, 0), first)


def test_a_particle_can_be_dragged(page):
    before = opened(page, "&fa=2&n=9")
    token = int(np.abs(before).max(axis=1).argmin())
    goal = np.array([2.0, -2.0])
    page.mouse.move(*pixel(page, before[token]))
    page.mouse.down()
    for share in (0.2, 0.4, 0.6, 0.8, 1.0):
        page.mouse.move(*pixel(page, before[token] + share * (goal - before[token])))
    page.mouse.up()
    expected = moved(before, token, goal)
    after = settled(page, expected, 0.03)
    assert np.allclose(after, expected, atol=0.03)  # a pixel is 0.012
    assert page.get_by_role("combobox", name="particle").input_value() == str(token)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Link copied").wait_for()
    assert "fa=2" in page.evaluate("navigator.clipboard.readText()")
    page.get_by_role("button", name="Start").click()
    wait_until_later(page, "step", 8)
    assert np.linalg.norm(tokens(page)[token]) < np.linalg.norm(after[token])


def test_a_particle_can_be_moved_by_keys(page):
    before = opened(page, "&n=6")
    page.get_by_role("combobox", name="particle").select_option("4")
    page.get_by_role("button", name="move particle right").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expected = moved(before, 4, before[4] + NUDGE_LENGTH)
    assert np.allclose(
        settled(page, expected, 0.02), expected, atol=0.02
    )  # normalised after each


def test_a_network_learns_on_the_page(page):
    open_page(page, page.address + "?tab=training&n=7&pace=20&weight_decay=0.3")
    change_while_running(page, "epoch", 100, "learning rate", "ArrowLeft", "lr=0.0099")
    losses = (
        "Bokeh.documents[0].get_model_by_name('Loss').renderers[0].data_source.data"
        ".train"
    )
    loss = page.evaluate(f"() => [...{losses}]")
    assert loss[-1] < 0.9 * loss[0]
    page.get_by_text(re.compile(r"correct: \d+% train, \d+% validation")).wait_for()


FOCUSED = """() => {
  let on = document.activeElement
  while (on?.shadowRoot?.activeElement) on = on.shadowRoot.activeElement
  if (!on || on === document.body) return null
  const label = on.ariaLabel || on.labels?.[0]?.textContent || on.textContent || on.title
  return label.trim() || "nameless " + on.outerHTML.slice(0, 120)
}"""
UNNAMED = re.compile(
    r"^\s*- (button|slider|textbox|combobox|checkbox|listbox|radio)(?!\s*\")",
    re.MULTILINE,
)


@pytest.mark.parametrize(
    ("tab", "controls"),
    [
        (
            "runs",
            "Play, Frame, Speed, One frame on, Next event, file, order, embedding",
        ),
        ("particles", "Particles, Start, Step, Reset, seed, pace, alignment fₐ"),
        ("training", "Training, Start, Step, Reset, seed, pace, weight decay"),
    ],
)
def test_every_control_is_labelled_and_reached_by_keyboard(page, tab, controls):
    open_page(page, f"{page.address}?tab={tab}")
    first = page.get_by_role("button", name="Play" if tab == "runs" else "Start")
    first.and_(page.locator(":enabled")).wait_for()
    assert not UNNAMED.findall(page.locator("body").aria_snapshot())
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        if (name := page.evaluate(FOCUSED)) is None:
            break
        reached.add(re.sub(r"\s*\(.*", "", name))
    assert tab != "runs" or not [
        name for name in reached if name.startswith("nameless")
    ]
    assert reached >= set(controls.split(", "))
