"""The tab of live particles: sliders for the forces, particles that can be dragged, and
curves over time."""

import dataclasses
from functools import partial
from typing import Any

import numpy as np
from bokeh.events import Pan, PanEnd, PanStart, PointEvent, Tap
from bokeh.models import Div, Row, Select, UIElement
from matplotlib.colors import to_rgb

from analysis.explorer import kernel_warmup
from analysis.explorer.live_figures import (
    MAP_SIDE,
    Chart,
    LivePanel,
)
from analysis.explorer.live_page import CHARTS_EVERY, LivePage
from analysis.explorer.live_run import (
    EmbeddingStructure,
    ParticleRun,
    embedding_structure,
)
from analysis.explorer.sliders import (
    FORCE_CONSTANTS,
    OPENING_SEED,
    PARTICLES,
    ParticleSliders,
)
from analysis.explorer.theme import make_button, text_div
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
from dynamics.forces import CA, CONSTANTS, law_from_json
from dynamics.settings import ParticleSettings, SettingsError, scaled_step_size
from dynamics.settings_text import EXPRESSIONS
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
"""Signs, names and directions in the plane of the buttons that move a particle."""
_COMPILE_CHECK_INTERVAL = 200
"""Milliseconds between checks whether kernels are compiled."""
_RING = 12.0
"""Area of the ring around the chosen particle, relative to a mark."""


class ParticlesPage(LivePage):
    """Sliders, buttons and figures of one run of particles."""

    unit = "step"
    steps_together = 1
    note = (
        "Drag a particle, or choose one and move it with the buttons or the arrow keys."
    )
    sliders = ParticleSliders
    leading_settings = FORCE_CONSTANTS
    chart_list = (
        Chart("Force norm", {"force": "force"}, log=True),
        Chart(
            "Grid imperfections",
            {"imperfections": "imperfections"},
            note="sums nearest to a different one; a grid has few, a circle half of all",
        ),
        Chart(
            "Largest / smallest norm",
            {"ratio": "ratio"},
            log=True,
            level=CIRCLE_RATIO,
            note=f"a circle if below {CIRCLE_RATIO}",
        ),
    )
    preparing = False
    """Whether kernels for changed settings are being compiled."""
    refusal = ""
    """Why the settings of the controls are not those of the run."""
    resuming = False
    """Whether the run goes on when they are."""
    drag_position: np.ndarray | None = None
    """Position in the plane to which the chosen particle is dragged."""
    positions_before_drag: np.ndarray | None = None
    """Positions of all particles when the drag began, or after the last step since."""
    run: ParticleRun
    token: Select
    """Control of the chosen particle."""
    law_line: Div
    """Text about a law other than CA's: the names of its forces, and the constants
    that have no control on the page."""
    plot: LivePanel
    """Panel of the embedding."""
    dense: bool
    """Whether pair sums are shown as a density."""
    basis: np.ndarray
    """Axes of the plane of the last frame, (2, axis), for D > 2."""
    structure: EmbeddingStructure

    def make_run(self) -> ParticleRun:
        self.token = Select(title="particle", width=84)
        self.token.on_change(
            "value", lambda attribute, old, new: self.player.request_frame()
        )
        return ParticleRun(ParticleSettings(), OPENING_SEED)

    def controls(self) -> list[UIElement]:
        """The settings, and buttons that move the chosen particle; the arrow keys do
        the same while one of them has the focus."""
        buttons = [
            make_button(
                sign,
                partial(self.move_particle_by_button, np.array(direction)),
                f"move particle {name.lower()}",
                [f"Arrow{name}"],
                width=34,
                align="end",
            )
            for sign, name, direction in _DIRECTIONS
        ]
        *widgets, note = super().controls()
        self.law_line = text_div("", 12, "muted")
        keys = Row(self.token, *buttons, css_classes=["arrow-keys"])
        self.show_law_controls()
        return [*widgets, self.law_line, keys, note]

    def show_law_controls(self) -> None:
        """Show the controls that the law has: constants that a force names, and
        strengths of CA's forces or, of another law, a line about its forces."""
        settings = self.run.settings
        constants = {force.constant for force in settings.forces}
        for name in CONSTANTS:
            self.widgets[name].visible = name in constants
        for name in EXPRESSIONS:
            self.widgets[name].visible = not settings.law
        self.widgets["law"].visible = False
        fixed = [
            f"{force.name} {force.constant:g}"
            for force in settings.law
            if not isinstance(force.constant, str)
        ]
        names = ", ".join(force.name for force in settings.law)
        self.law_line.text = f"Forces: {names}." if names else ""
        if fixed:
            self.law_line.text += f" Fixed constants: {', '.join(fixed)}."
        self.law_line.visible = bool(names)

    def begin(self) -> None:
        n = self.run.settings.n
        self.drag_position = None
        self.dense = shown_as_density(n)
        if len(self.token.options) != n:
            self.token.update(options=list(map(str, range(n))), value="0")
        super().begin()
        self.basis = fit_projection(self.run.embedding).basis

    def make_panels(self) -> list[LivePanel]:
        n = self.run.settings.n
        ink = np.array([to_rgb(colour("ink"))])
        accent = np.array([to_rgb(colour("accent"))])
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
            self.structure_text,
            note="arrows: forces on the particles; ring: the chosen one",
            explanation=EMBEDDING_EXPLANATION,
        )
        for event, reaction in (
            (PanStart, self.grab_particle),
            (Pan, self.drag_particle),
            (PanEnd, self.release_particle),
            (Tap, self.choose_particle),
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

    def apply_settings(self, *events: Any) -> None:
        """Apply changed settings: force constants at once; a change of N, D or the seed
        restarts the run.

        A new N, D or law is applied once its kernels are compiled; then a run that was
        running goes on. If N is changed on the
        page, the step size becomes the usual one; an address gives both."""
        if self.player.timer.is_running and [event.name for event in events] == ["n"]:
            usual = round(scaled_step_size(PARTICLES.step_size, self.settings.n), 5)
            low, high = self.settings.param.step_size.bounds
            self.settings.step_size = min(max(usual, low), high)
        values = self.setting_values()
        seed = values.pop("seed")
        wanted = dataclasses.replace(self.run.settings, **values)
        kernels = kernel_warmup.settings_of_kernels(wanted)
        current = kernel_warmup.settings_of_kernels(self.run.settings)
        if kernels == current or kernel_warmup.kernels_ready(kernels):
            is_known = kernels == current and wanted.forces == CA
            self.refusal = "" if is_known else why_refused(wanted, seed)
            if not self.refusal:
                super().apply_settings()
                self.show_law_controls()
            kernel_warmup.mark_kernels_ready(kernels)
            if self.resuming and self.player.timer.is_running:
                self.player.start()
            self.resuming = False
        else:
            self.resuming |= self.player.running
            self.player.pause()
            if not self.preparing:
                self.preparing = True
                self.document.add_timeout_callback(
                    self.apply_settings_when_compiled, _COMPILE_CHECK_INTERVAL
                )
        self.player.request_frame()

    def setting_values(self) -> dict[str, Any]:
        """The settings of the run and its seed. With a law other than CA's, the strengths
        of CA's forces and the constants that the law does not use have their defaults."""
        values = super().setting_values()
        law = law_from_json(values["law"] or "[]")
        if law:
            unused = ParticleSettings(law=law).unused_settings
            replaced = (*EXPRESSIONS, *(name for name in unused if name in values))
            values |= {name: getattr(PARTICLES, name) for name in replaced}
        return values | {"law": law}

    def apply_settings_when_compiled(self) -> None:
        """Apply the settings if their kernels are compiled, or else wait again."""
        self.preparing = False
        self.apply_settings()

    def frame(self, moving: bool) -> None:
        if self.drag_position is not None:
            self.move_particle(self.drag_position, self.positions_before_drag)
        super().frame(moving)
        if moving:
            self.positions_before_drag = self.run.embedding

    def add_chart_values(self) -> None:
        few = self.run.settings.n <= _FEW_PARTICLES or not self.player.running
        if few or self.frames % CHARTS_EVERY == 0 or self.run.diverged:
            self.structure = embedding_structure(self.run.embedding)
            super().add_chart_values()

    def measures(self) -> dict[str, float]:
        return {
            "force": float(self.run.state.gradient_norm[0]),
            "imperfections": self.structure.imperfections,
            "ratio": self.structure.ratio,
        }

    def points(self, panel: LivePanel) -> dict[str, np.ndarray]:
        """The particles and the forces on them."""
        plane = self.plane()
        places = panel.fit_limits(plane.places(self.run.embedding))
        force = (self.run.mean_force() @ plane.basis.T)[None]
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
        places = panel.fit_limits(plane.places(sums))
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

    def structure_text(self) -> str:
        """The structure that the particles form, and the axes of the plot."""
        dim = self.run.settings.dim
        planes = {1: "; one axis, horizontal", 2: ""}
        note = planes.get(dim, f"; two principal axes of {dim}")
        return self.structure.text + note

    def status_note(self) -> str:
        n = self.run.settings.n
        settings = self.settings
        if self.preparing:
            return f"; N = {settings.n}, D = {settings.dim}: kernels are being compiled"
        if self.refusal:
            return f"; {self.refusal}"
        usual = scaled_step_size(PARTICLES.step_size, n)
        if self.run.settings.step_size <= LARGE_STEP * usual:
            return ""
        return f"; the step size is large for N = {n}: {usual:.1g} is usual"

    # ----------------------------------------------------------------- user interaction

    def choose_particle(self, event: PointEvent) -> bool:
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

    def grab_particle(self, event: PointEvent) -> None:
        """Begin to drag the particle at the pointer."""
        if self.choose_particle(event):
            self.positions_before_drag = self.run.embedding
            self.drag_position = np.array([event.x, event.y])
            self.player.request_frame()

    def drag_particle(self, event: PointEvent) -> None:
        """Drag the grabbed particle to the pointer, within the square."""
        if self.drag_position is not None and None not in (event.x, event.y):
            edge = self.plot.reach
            self.drag_position = np.clip([event.x, event.y], -edge, edge)
            self.player.request_frame()

    def release_particle(self, event: PointEvent) -> None:
        """Drag the grabbed particle to the pointer, and leave it there."""
        self.drag_particle(event)
        if self.drag_position is not None:
            self.move_particle(self.drag_position, self.positions_before_drag)
        self.drag_position = None
        self.player.request_frame()

    def move_particle_by_button(self, direction: np.ndarray) -> None:
        """Move the chosen particle a little."""
        places = self.plane().places(self.run.embedding)
        self.move_particle(places[int(self.token.value)] + NUDGE_LENGTH * direction)
        self.player.request_frame()

    def move_particle(
        self, place: np.ndarray, others: np.ndarray | None = None
    ) -> None:
        """Move the chosen particle to a place in the plane; its coordinates along other
        axes do not change.

        others: positions of all particles (token, axis) before a drag; if each move
        starts from them, repeated normalisation during the drag does not contract the
        other particles."""
        token = int(self.token.value)
        plane = self.plane()
        position = self.run.embedding[token]
        position = position + (place - position @ plane.basis.T) @ plane.basis
        self.run.place_particle(token, position, others)


def why_refused(settings: ParticleSettings, seed: int) -> str:
    """Why particles do not start with these settings; nothing if they do."""
    try:
        ParticleRun(settings, seed)
    except SettingsError as error:
        return str(error)
    return ""


def nearest_basis(basis: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The orthonormal basis (2, axis) of the plane of `basis` that is nearest to the
    basis `before`."""
    left, _, right = np.linalg.svd(before @ basis.T)
    return left @ right @ basis
