"""The tab of live particles: sliders for the forces, particles that can be dragged, and
curves over time."""

from functools import partial
from typing import Any

import numpy as np
from bokeh.document import Document
from bokeh.events import Pan, PanEnd, PanStart, PointEvent, Tap
from bokeh.models import Column, Row, UIElement

from analysis.explorer import kernel_warmup
from analysis.explorer.controls import (
    LabelledSlider,
    StatusLine,
    control_column,
    titled_plot,
)
from analysis.explorer.live_figures import (
    LiveChart,
    LivePairSums,
    LivePlane,
    LiveTokens,
)
from analysis.explorer.live_run import History, ParticleRun
from analysis.explorer.player import (
    CHARTS_EVERY,
    TEXT_EVERY,
    LivePage,
    Player,
    advance_within_time,
)
from analysis.explorer.sliders import (
    OPENING_SEED,
    PARTICLE_SLIDER_STEPS,
    PARTICLES,
    ParticleSliders,
)
from analysis.explorer.theme import (
    FAINT,
    STACKED,
    make_button,
    parameter_select,
    select_widget,
    text_div,
)
from analysis.explorer.view_code import live_view_code
from analysis.panels.particle_panels import ARROW_LENGTH, scaled_arrows
from analysis.panels.scene import Arrows
from analysis.structures.circles_and_grids import CIRCLE_RATIO
from analysis.structures.projection import Projection, fit_projection
from dynamics.settings import ParticleSettings
from dynamics.tasks import all_pairs, modular_sum

REACH, SUMS_REACH = 3.0, 5.0
NUDGE_LENGTH = 0.1
LARGE_STEP = 3
"""A step size above this multiple of the usual one, which is proportional to 1/N²,
moves particles too far in a step."""
_FEW_PARTICLES = 50
"""Up to this many particles, grid imperfections are counted in every frame; for more,
only when curves are drawn."""
_GRAB_DISTANCE = 0.12
"""Largest distance from the pointer at which a particle is grabbed, as a fraction of
the square."""


class ParticlesPage(LivePage):
    """Sliders, buttons and figures of one run of particles."""

    def __init__(self, document: Document) -> None:
        self.settings = ParticleSliders()
        self.run = ParticleRun(ParticleSettings(), OPENING_SEED)
        self.document, self.preparing, self.resuming = document, False, False
        self.history = History("x", "force", "imperfections", "ratio")
        self.player = Player(document, self.frame, self.step)
        self.held: np.ndarray | None = (
            None  # position to which the chosen particle is dragged
        )
        self.among: np.ndarray | None = (
            None  # positions of all particles when the drag began
        )
        self.due, self.frames = 0.0, 0
        self.words, self.clock = StatusLine(), StatusLine("clock", margin_bottom="12px")
        self.token = select_widget(
            "particle", [], "", sizing_mode=None, width=84, margin=(0, 10, 0, 0)
        )
        self.token.on_change("value", lambda attribute, old, new: self.player.ask())
        self.charts = [
            LiveChart("force norm over steps", ["force"], "step", log=True),
            LiveChart("grid imperfections over steps", ["imperfections"], "step"),
            LiveChart(
                "largest over smallest norm over steps",
                ["ratio"],
                "step",
                log=True,
                level=CIRCLE_RATIO,
            ),
        ]
        self.stages = Row(
            sizing_mode="stretch_width", stylesheets=[STACKED], margin=(0, 0, 22, 0)
        )
        self.settings.param.watch(self.turned, list(PARTICLE_SLIDER_STEPS))
        self.begin()
        plots = Column(self.stages, self.lower(), sizing_mode="stretch_width")
        self.layout = Row(
            self.controls(), plots, sizing_mode="stretch_width", stylesheets=[STACKED]
        )

    def controls(self) -> UIElement:
        sliders = [
            LabelledSlider(self.settings, name, step).layout
            for name, step in PARTICLE_SLIDER_STEPS.items()
        ]
        pace = parameter_select(self.settings, "pace")
        return control_column(
            self.player.buttons(self.begin),
            self.clock.layout,
            *sliders,
            pace,
            self.nudges(),
        )

    def nudges(self) -> UIElement:
        """Buttons that move the chosen particle; the arrow keys do the same while one
        of them has the focus."""
        signs = (
            ("←", "Left", (-1, 0)),
            ("↑", "Up", (0, 1)),
            ("↓", "Down", (0, -1)),
            ("→", "Right", (1, 0)),
        )
        buttons = [
            make_button(
                sign,
                partial(self.nudge, way),
                f"move particle {to.lower()}",
                [f"Arrow{to}"],
                width=34,
            )
            for sign, to, way in signs
        ]
        keys = Row(
            self.token,
            *buttons,
            css_classes=["arrow-keys"],
            sizing_mode="stretch_width",
            margin=(4, 0, 4, 0),
        )
        how = (
            "Drag a particle, or choose one here and move it with the buttons or the"
            " arrow keys."
        )
        return Column(keys, text_div(how, 12, FAINT))

    def lower(self) -> UIElement:
        """Curves of the run so far."""
        force, imperfections, ratio = (chart.figure for chart in self.charts)
        note = text_div(f"log scale; a circle if below {CIRCLE_RATIO}", colour=FAINT)
        scale = text_div("a grid has few, a circle about half of all", colour=FAINT)
        return Row(
            titled_plot("Force norm (log)", force),
            titled_plot("Grid imperfections", imperfections, scale),
            titled_plot("Largest / smallest norm", ratio, note),
            sizing_mode="stretch_width",
            stylesheets=[STACKED],
        )

    def begin(self) -> None:
        """Restart with the current settings; the figures are recreated if the number of
        particles has changed."""
        self.run.restart()
        self.history.clear()
        self.due, self.held = 0.0, None
        n = self.run.settings.n
        if self.token.options != (options := [str(token) for token in range(n)]):
            self.token.update(options=options, value="0")
            self.draw_stages(n)
        self.embedding.set_reach(REACH)
        self.plane_of_sums.set_reach(SUMS_REACH)
        self.basis = fit_projection(self.run.embedding).basis
        self.remember()
        self.player.ask()

    def draw_stages(self, n: int) -> None:
        """Make the figures for N particles."""
        self.embedding = LivePlane(REACH, "embedding")
        self.plane_of_sums = LivePlane(SUMS_REACH, "pair sums")
        forces = tuple(f"force on {token}" for token in range(n))
        self.arrows = self.embedding.arrows(
            Arrows("force", np.full((n, 3), 0.15), forces)
        )
        self.tokens = LiveTokens(self.embedding, n)
        self.sums = LivePairSums(n, self.plane_of_sums)
        plot = self.embedding.figure
        plot.on_event(PanStart, self.grab)
        plot.on_event(Pan, self.drag)
        plot.on_event(PanEnd, self.let_go)
        plot.on_event(Tap, self.choose)
        self.stages.children = [
            titled_plot("Embedding and forces", plot, self.words.layout),
            titled_plot(self.sums.title, self.plane_of_sums.figure),
        ]

    # ------------------------------------------------------------------------ animation

    def turned(self, *events: Any) -> None:
        """Apply changed settings: force constants at once; a change of N, D or the seed
        restarts the run.

        A new N or D is applied once its kernels are compiled; then a run that was
        running goes on."""
        kernels, now = (
            kernel_warmup.kernels_of(of.n, of.dim)
            for of in (self.settings, self.run.settings)
        )
        if kernels != now and not kernel_warmup.kernels_ready(kernels):
            self.wait()
        else:
            if self.run.change(
                **{name: getattr(self.settings, name) for name in PARTICLE_SLIDER_STEPS}
            ):
                self.begin()
            kernel_warmup.mark_kernels_ready(kernels)
            if self.resuming and self.player.seen:
                self.player.start()
            self.resuming = False
        self.player.ask()

    def wait(self) -> None:
        """Try again soon to apply the settings."""
        self.resuming |= self.player.running
        self.player.pause()
        if not self.preparing:
            self.preparing = True
            self.document.add_timeout_callback(self.look_again, 200)

    def look_again(self) -> None:
        self.preparing = False
        self.turned()

    def python(self, columns: int = 0) -> str:
        """Python lines that repeat the view."""
        return live_view_code(
            self.run.settings,
            self.run.seed,
            int(self.run.state.last_step[0]),
            self.run.unchanged,
        )

    def frame(self, moving: bool) -> None:
        if self.held is not None:
            self.put(self.held, self.among)
        if moving:
            self.due += self.settings.pace
            steps = int(self.due)
            self.due -= steps
            advance_within_time(steps, self.run.advance)
            self.moved(steps)
            self.among = self.run.embedding
        self.draw()

    def step(self) -> None:
        self.run.advance(1)
        self.moved(1)

    def moved(self, steps: int) -> None:
        """Update the history after some steps, and pause if the run has diverged."""
        if steps and (
            self.few or not self.player.running or self.frames % CHARTS_EVERY == 0
        ):
            self.remember()
        if self.run.diverged:
            self.player.pause()

    @property
    def few(self) -> bool:
        """Whether grid imperfections can be counted in every frame."""
        return self.run.settings.n <= _FEW_PARTICLES

    def remember(self) -> None:
        result = self.run.structure
        self.history.add(
            self.run.state.step,
            float(self.run.state.gradient_norm[0]),
            result.imperfections,
            result.ratio,
        )

    def draw(self) -> None:
        x, n = self.run.embedding, self.run.settings.n
        plane, pairs = self.plane(), all_pairs(n)
        places = plane.places(x)
        self.embedding.fit(places)
        self.tokens.show(places, int(self.token.value))
        force = self.run.force() @ plane.basis.T
        self.arrows.show(
            scaled_arrows(
                places[None], force[None], ARROW_LENGTH * self.embedding.reach
            )[0]
        )
        sums = x[pairs[:, 0]] + x[pairs[:, 1]]
        if plane.heights is not None:  # one axis: pair sums have separate heights
            plane = fit_projection(sums, ranks=modular_sum(pairs, n))
        self.sums.show(plane.places(sums))
        if (
            self.frames % (TEXT_EVERY if self.few else CHARTS_EVERY) == 0
            or not self.player.running
        ):
            self.say()
        if self.frames % CHARTS_EVERY == 0 or not self.player.running:
            columns = self.history.arrays()
            for chart in self.charts:
                chart.show(columns)
        self.frames += 1

    def plane(self) -> Projection:
        """The plane of the plot; for D > 2 the principal plane, rotated as little as
        possible between frames."""
        plane = fit_projection(self.run.embedding)
        self.basis = (
            nearest_basis(plane.basis, self.basis)
            if self.run.settings.dim > 2
            else plane.basis
        )
        return plane._replace(basis=self.basis)

    def say(self) -> None:
        dim = self.run.settings.dim
        note = {1: "; one axis, horizontal", 2: ""}.get(
            dim, f"; two principal axes of {dim}"
        )
        self.words.say(self.run.structure.words + note)
        stopped = (
            "; the next step is not finite: the run has diverged"
            if self.run.diverged
            else ""
        )
        sizes = f"N = {self.settings.n}, D = {self.settings.dim}"
        coming = f"; {sizes}: kernels are being compiled" if self.preparing else ""
        usual = PARTICLES.step_size * (PARTICLES.n / self.run.settings.n) ** 2
        large = (
            f"; the step size is large for N = {self.run.settings.n}: {usual:.1g} is"
            " usual"
        )
        warning = large * (self.run.settings.step_size > LARGE_STEP * usual)
        self.clock.say(
            f"step {int(self.run.state.last_step[0])}{stopped}{coming}{warning}",
            not self.player.running,
        )

    # ----------------------------------------------------------------- user interaction

    def choose(self, event: PointEvent) -> bool:
        """Choose the particle nearest to the pointer, if it is within reach; return
        whether it is."""
        near = self.near(event)
        if near is not None:
            self.token.value = str(near)
        return near is not None

    def grab(self, event: PointEvent) -> None:
        if self.choose(event):
            self.among = self.run.embedding
            self.drag_to(event)

    def drag(self, event: PointEvent) -> None:
        if self.held is not None:
            self.drag_to(event)

    def drag_to(self, event: PointEvent) -> None:
        if event.x is not None and event.y is not None:
            edge = self.embedding.reach
            self.held = np.clip([event.x, event.y], -edge, edge)
            self.player.ask()

    def let_go(self, event: PointEvent) -> None:
        self.drag(event)
        if self.held is not None:
            self.put(self.held, self.among)
        self.held = None
        self.player.ask()

    def near(self, event: PointEvent) -> int | None:
        if event.x is None or event.y is None:
            return None
        distances = np.linalg.norm(
            self.plane().places(self.run.embedding) - [event.x, event.y], axis=1
        )
        return (
            int(distances.argmin())
            if distances.min() < _GRAB_DISTANCE * self.embedding.reach
            else None
        )

    def nudge(self, way: tuple[int, int] | np.ndarray) -> None:
        """Move the chosen particle a little."""
        self.put(
            self.plane().places(self.run.embedding)[int(self.token.value)]
            + NUDGE_LENGTH * np.asarray(way)
        )
        self.player.ask()

    def put(self, place: np.ndarray, among: np.ndarray | None = None) -> None:
        """Put the selected particle at a position in the plane; its coordinates along
        other axes do not change.

        among: positions of all particles (token, axis) when a drag began; if each move
        starts from them, repeated normalisation during the drag does not contract the
        other particles."""
        token, plane = int(self.token.value), self.plane()
        position = self.run.embedding[token]
        self.run.place(
            token, position + (place - position @ plane.basis.T) @ plane.basis, among
        )


def nearest_basis(basis: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The orthonormal basis (2, axis) of the plane of `basis` that is nearest to the
    basis `before`."""
    left, _, right = np.linalg.svd(before @ basis.T)
    return left @ right @ basis
