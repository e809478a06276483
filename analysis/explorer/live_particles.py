"""The tab of live particles: sliders for the forces, particles that can be dragged, and
curves over time."""

from functools import partial
from typing import Any

import numpy as np
from bokeh.events import Pan, PanEnd, PanStart, PointEvent, Tap
from bokeh.models import Row, Select, UIElement
from matplotlib.colors import to_rgb

from analysis.explorer import kernel_warmup
from analysis.explorer.live_figures import (
    MAP_SIDE,
    Chart,
    LivePanel,
)
from analysis.explorer.live_page import CHARTS_EVERY, LivePage
from analysis.explorer.live_run import ParticleRun, embedding_structure
from analysis.explorer.sliders import OPENING_SEED, PARTICLES, ParticleSliders
from analysis.explorer.theme import make_button
from analysis.panels.colours import colour
from analysis.panels.common_panels import EMBEDDING_EXPLANATION, token_points
from analysis.panels.particle_panels import (
    ARROW_LENGTH,
    PAIR_SUMS_EXPLANATION,
    cell_sums,
    pair_sum_points,
    scaled_arrows,
    shown_as_density,
)
from analysis.panels.scene import Arrows, Image, Points
from analysis.structures.circles_and_grids import CIRCLE_RATIO
from analysis.structures.projection import Projection, fit_projection
from dynamics.settings import ParticleSettings
from dynamics.tasks import all_pairs, modular_sum

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
_DIRECTIONS = (
    ("←", "Left", (-1, 0)),
    ("↑", "Up", (0, 1)),
    ("↓", "Down", (0, -1)),
    ("→", "Right", (1, 0)),
)
"""Signs and names of the buttons that move a particle, and where to."""
_RING = 12.0
"""Area of the ring around the chosen particle, relative to a mark."""


class ParticlesPage(LivePage):
    """Sliders, buttons and figures of one run of particles."""

    unit = "step"
    at_once = 1
    note = (
        "Drag a particle, or choose one and move it with the buttons or the arrow keys."
    )
    sliders = ParticleSliders
    chart_list = (
        Chart("Force norm", {"force": "force"}, log=True),
        Chart(
            "Grid imperfections",
            {"imperfections": "imperfections"},
            note="a grid has few, a circle half of all",
        ),
        Chart(
            "Largest / smallest norm",
            {"ratio": "ratio"},
            log=True,
            level=CIRCLE_RATIO,
            note=f"a circle if below {CIRCLE_RATIO}",
        ),
    )
    preparing = resuming = False
    held: np.ndarray | None = None
    """Position to which the chosen particle is dragged."""
    among: np.ndarray | None = None
    """Positions of all particles when the drag began."""
    run: ParticleRun

    def make_run(self) -> ParticleRun:
        self.token = Select(title="particle", width=84)
        self.token.on_change("value", lambda attribute, old, new: self.player.ask())
        return ParticleRun(ParticleSettings(), OPENING_SEED)

    def controls(self) -> list[UIElement]:
        """The settings, and buttons that move the chosen particle; the arrow keys do
        the same while one of them has the focus."""
        buttons = [
            make_button(
                sign,
                partial(self.nudge, np.array(way)),
                f"move particle {to.lower()}",
                [f"Arrow{to}"],
                width=34,
                align="end",
            )
            for sign, to, way in _DIRECTIONS
        ]
        *widgets, note = super().controls()
        return [*widgets, Row(self.token, *buttons, css_classes=["arrow-keys"]), note]

    def begin(self) -> None:
        n = self.run.settings.n
        self.held = None
        self.dense = shown_as_density(n)
        if len(self.token.options) != n:
            self.token.update(options=list(map(str, range(n))), value="0")
        super().begin()
        self.basis = fit_projection(self.run.embedding).basis

    def make_panels(self) -> list[LivePanel]:
        n = self.run.settings.n
        ink, accent = (np.array([to_rgb(colour(name))]) for name in ("ink", "accent"))
        hollow = np.array([False])
        layers: list[Points | Arrows] = [
            Arrows("force", ink.repeat(n, 0), tuple(f"force on {k}" for k in range(n))),
            token_points("embedding", n, joined=True),
            Points("chosen", accent, ("",), filled=hollow, size=_RING),
        ]
        title = "embedding and forces"
        self.plot = LivePanel(
            "embedding",
            title,
            layers,
            self.points,
            self.words,
            explanation=EMBEDDING_EXPLANATION,
        )
        for event, reaction in (
            (PanStart, self.grab),
            (Pan, self.drag),
            (PanEnd, self.let_go),
            (Tap, self.choose),
        ):
            self.plot.plot.on_event(event, reaction)
        sums: Points | Image = pair_sum_points("sums", n, all_pairs(n))
        note = "coloured by modular sum"
        if self.dense:
            blank = ("",) * MAP_SIDE
            sums = Image("sums", 0.0, 1.0, blank, blank)
            note = "log of their density, relative to the largest"
        panel = LivePanel(
            "pair_sums",
            "pair sums",
            [sums],
            self.pair_sums,
            limits=(-5.0, 5.0),
            note=note,
            explanation=PAIR_SUMS_EXPLANATION,
        )
        return [self.plot, panel]

    # ------------------------------------------------------------------------ animation

    def turn(self, *events: Any) -> None:
        """Apply changed settings: force constants at once; a change of N, D or the seed
        restarts the run.

        A new N or D is applied once its kernels are compiled; then a run that was
        running goes on. If N is changed on the
        page, the step size becomes the usual one; an address gives both."""
        if self.player.timer.is_running and [event.name for event in events] == ["n"]:
            usual = round(usual_step_size(self.settings.n), 5)
            self.settings.step_size = min(max(usual, 1e-5), 0.02)
        kernels, now = (
            kernel_warmup.kernels_of(of.n, of.dim)
            for of in (self.settings, self.run.settings)
        )
        if kernels == now or kernel_warmup.kernels_ready(kernels):
            super().turn()
            kernel_warmup.mark_kernels_ready(kernels)
            if self.resuming and self.player.timer.is_running:
                self.player.start()
            self.resuming = False
        else:
            self.resuming |= self.player.running
            self.player.pause()
            if not self.preparing:
                self.preparing = True
                self.document.add_timeout_callback(self.try_again, 200)
        self.player.ask()

    def try_again(self) -> None:
        """Apply settings for which kernels were compiled."""
        self.preparing = False
        self.turn()

    def frame(self, moving: bool) -> None:
        if self.held is not None:
            self.put(self.held, self.among)
        super().frame(moving)
        if moving:
            self.among = self.run.embedding

    def remember(self) -> None:
        few = self.run.settings.n <= _FEW_PARTICLES or not self.player.running
        if few or self.frames % CHARTS_EVERY == 0 or self.run.diverged:
            super().remember()

    def measures(self) -> dict[str, float]:
        self.structure = embedding_structure(self.run.embedding)
        return {
            "force": float(self.run.state.gradient_norm[0]),
            "imperfections": self.structure.imperfections,
            "ratio": self.structure.ratio,
        }

    def points(self, panel: LivePanel) -> dict[str, np.ndarray]:
        """The particles and the forces on them."""
        plane = self.plane()
        places = panel.fit(plane.places(self.run.embedding))
        force = (self.run.force() @ plane.basis.T)[None]
        arrows = scaled_arrows(places[None], force, ARROW_LENGTH * panel.reach)
        chosen = places[[int(self.token.value)]]
        return {"embedding": places, "chosen": chosen, "force": arrows[0]}

    def pair_sums(self, panel: LivePanel) -> dict[str, np.ndarray]:
        """The pair sums, or an image of their density."""
        plane = self.plane()
        pairs = all_pairs(self.run.settings.n)
        sums = self.run.embedding[pairs].sum(axis=1)
        if plane.heights is not None:  # one axis: pair sums have separate heights
            ranks = modular_sum(pairs, self.run.settings.n)
            plane = fit_projection(sums, ranks=ranks)
        places = panel.fit(plane.places(sums))
        if not self.dense:
            return {"sums": places}
        box = np.array([[-panel.reach, panel.reach]] * 2)
        density = np.log1p(cell_sums(places, box, MAP_SIDE))
        return {"sums": density / density.max()}

    def plane(self) -> Projection:
        """The plane of the plot; for D > 2 the principal plane, rotated as little as
        possible between frames."""
        plane = fit_projection(self.run.embedding)
        if self.run.settings.dim <= 2:
            return plane
        self.basis = nearest_basis(plane.basis, self.basis)
        return plane._replace(basis=self.basis)

    def words(self) -> str:
        """The structure that the particles form, and the axes of the plot."""
        dim = self.run.settings.dim
        planes = {1: "; one axis, horizontal", 2: ""}
        note = planes.get(dim, f"; two principal axes of {dim}")
        return self.structure.words + note

    def remark(self) -> str:
        n = self.run.settings.n
        settings = self.settings
        if self.preparing:
            return f"; N = {settings.n}, D = {settings.dim}: kernels are being compiled"
        usual = usual_step_size(n)
        if self.run.settings.step_size <= LARGE_STEP * usual:
            return ""
        return f"; the step size is large for N = {n}: {usual:.1g} is usual"

    # ----------------------------------------------------------------- user interaction

    def choose(self, event: PointEvent) -> bool:
        """Choose the particle nearest to the pointer, if it is within reach; return
        whether it is."""
        if event.x is None or event.y is None:
            return False
        places = self.plane().places(self.run.embedding)
        distances = np.linalg.norm(places - [event.x, event.y], axis=1)
        is_near = distances.min() < _GRAB_DISTANCE * self.plot.reach
        if is_near:
            self.token.value = str(distances.argmin())
        return bool(is_near)

    def grab(self, event: PointEvent) -> None:
        if self.choose(event):
            self.among = self.run.embedding
            self.held = np.array([event.x, event.y])
            self.player.ask()

    def drag(self, event: PointEvent) -> None:
        if self.held is not None and event.x is not None and event.y is not None:
            edge = self.plot.reach
            self.held = np.clip([event.x, event.y], -edge, edge)
            self.player.ask()

    def let_go(self, event: PointEvent) -> None:
        self.drag(event)
        if self.held is not None:
            self.put(self.held, self.among)
        self.held = None
        self.player.ask()

    def nudge(self, way: np.ndarray) -> None:
        """Move the chosen particle a little."""
        places = self.plane().places(self.run.embedding)
        self.put(places[int(self.token.value)] + NUDGE_LENGTH * way)
        self.player.ask()

    def put(self, place: np.ndarray, among: np.ndarray | None = None) -> None:
        """Put the selected particle at a position in the plane; its coordinates along
        other axes do not change.

        among: positions of all particles (token, axis) when a drag began; if each move
        starts from them, repeated normalisation during the drag does not contract the
        other particles."""
        token = int(self.token.value)
        plane = self.plane()
        position = self.run.embedding[token]
        self.run.place(
            token, position + (place - position @ plane.basis.T) @ plane.basis, among
        )


def usual_step_size(n: int) -> float:
    """The step size that suits N particles: forces grow as N²."""
    return PARTICLES.step_size * (PARTICLES.n / n) ** 2


def nearest_basis(basis: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The orthonormal basis (2, axis) of the plane of `basis` that is nearest to the
    basis `before`."""
    left, _, right = np.linalg.svd(before @ basis.T)
    return left @ right @ basis
