"""The explorer's page: time to first paint, speed of scrubbing and playing, paint rate
of live particles.

Benchmarks that need a browser are skipped if Chromium is not installed.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bokeh.document import Document

sys.path.insert(
    0, str(Path(__file__).parent.parent)
)  # for tests.browser, which no package installs

from analysis.explorer.live_particles import ParticlesPage
from analysis.explorer.live_training import TrainingPage
from analysis.panels.run_scene import panel_names
from dynamics.errors import MissingPackage
from dynamics.settings import ParticleSettings, SparseSettings
from dynamics.simulation import simulate
from dynamics.trajectory.reader import open_trajectory
from tests.browser import DRAWN, FLAGS

SECONDS = 4
EPOCHS = 1000
PAINTS = """() => {
  window.paints = 0
  const look = (view) => {
    if (view.model?.name === "embedding and forces") {
      const paint = view._actual_paint.bind(view)
      view._actual_paint = () => { window.paints += 1; paint() }
    }
    for (const child of view.child_views ?? []) look(child)
  }
  for (const root of Bokeh.index.roots) look(root)
}"""
THERE = """(panels) => globalThis.scrubber?.stage?.buffers.size >= panels
  && [...scrubber.stage.buffers.values()].every((buffer) => !buffer.held)"""
"""Whether all frames have arrived."""
SCRUB = """async (places) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done)), took = []
  const seek = scrubber.bar.querySelector("[data-do=seek]")
  for (const share of places) {
    await frame()
    await new Promise((done) => setTimeout(done, 20 * Math.random()))
    const before = scrubber.painted, start = performance.now()
    seek.value = Math.floor(share * seek.max)
    seek.dispatchEvent(new Event("input", {bubbles: true, composed: true}))
    while (scrubber.painted == before) await frame()
    took.push(performance.now() - start)
  }
  return took
}"""
"""Milliseconds from each move of the slider to the first browser frame after the new
position was painted."""


class InBrowser:
    """A served page and a headless Chromium."""

    timeout = 120
    size = {"width": 1400, "height": 900}

    def setup(self, *words):
        program = shutil.which("chromium")
        if program is None:
            raise NotImplementedError("no Chromium")
        from playwright.sync_api import sync_playwright

        command = [
            sys.executable,
            "-m",
            "analysis.explore",
            *self.files(),
            "--port",
            "0",
            "--no-browser",
        ]
        self.server = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.address = re.search(r"http://\S+", self.server.stdout.readline()).group()
        self.playwright = sync_playwright().start()
        self.browser = self.playwright.chromium.launch(
            executable_path=program, args=FLAGS
        )
        self.page = self.browser.new_page(viewport=self.size)

    def teardown(self, *words):
        if hasattr(self, "server"):
            self.browser.close()
            self.playwright.stop()
            self.server.kill()
            self.server.communicate()

    def files(self):
        return []

    def open(self, query):
        self.page.goto(self.address + query)
        self.page.wait_for_function(DRAWN)


class FirstPaint(InBrowser):
    """Time from the request for a page of 100 runs until it is fully drawn; an earlier
    visit has filled the caches."""

    unit = "s"

    def setup(self):
        self.folder = tempfile.TemporaryDirectory()
        super().setup()
        self.open("")

    def files(self):
        path = Path(self.folder.name) / "hundred.nc"
        simulate(ParticleSettings(), runs=100, steps=100, out=path)
        return [str(path)]

    def track_first_paint(self):
        took = []
        for _ in range(5):
            start = time.perf_counter()
            self.open("")
            took.append(time.perf_counter() - start)
        return sorted(took)[2]

    track_first_paint.unit = "s"


class Scrubbed(InBrowser):
    """A run with VC's settings, recorded at every epoch, with all panels visible."""

    params = ([8, 16],)
    param_names = ("panels",)
    size = {"width": 1560, "height": 1400}

    def setup(self, panels):
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "scrubbed.nc"
        try:
            simulate(
                SparseSettings(),
                runs=1,
                steps=EPOCHS * SparseSettings().epoch_steps,
                out=path,
            )
        except MissingPackage as error:
            raise NotImplementedError(error) from error
        self.path = str(path)
        with open_trajectory(path) as trajectory:
            names = panel_names(trajectory)[:panels]
        super().setup()
        self.open(f"?step=0&panels={','.join(names)}")
        self.page.wait_for_function(THERE, arg=panels // 2)
        self.page.wait_for_timeout(1000)

    def files(self):
        return [self.path]

    def track_scrub_latency(self, panels):
        """Median over moves of the slider in both directions."""
        took = self.page.evaluate(SCRUB, [(37 * k % 97) / 97 for k in range(60)])
        return sorted(took)[len(took) // 2]

    track_scrub_latency.unit = "ms"

    def track_frames_a_second(self, panels):
        """Frames painted per second while playing at the highest speed."""
        self.page.get_by_role("combobox", name="Speed").select_option("120")
        self.page.get_by_role("button", name="Play").click()
        self.page.wait_for_timeout(500)
        before, start = self.page.evaluate("scrubber.painted"), time.perf_counter()
        self.page.wait_for_timeout(1000 * SECONDS)
        return (self.page.evaluate("scrubber.painted") - before) / (
            time.perf_counter() - start
        )

    track_frames_a_second.unit = "1/s"


class Painted(InBrowser):
    """Frames of live particles that the browser paints per second; the server sends at
    most 30."""

    params = ([17, 59, 113, 199],)
    param_names = ("N",)

    def track_frames_a_second(self, n):
        self.open(f"?tab=particles&fa=2&n={n}&step_size={0.003 * (17 / n) ** 2:.5f}")
        self.page.get_by_text("kernels are being compiled").wait_for(state="hidden")
        self.page.evaluate(PAINTS)
        self.page.get_by_role("button", name="Start").click()
        self.page.wait_for_timeout(1000)
        before, start = self.page.evaluate("paints"), time.perf_counter()
        self.page.wait_for_timeout(1000 * SECONDS)
        return (self.page.evaluate("paints") - before) / (time.perf_counter() - start)

    track_frames_a_second.unit = "1/s"


class Frames:
    """Server time for one frame of a live page: a step, the structure, and the data to
    send."""

    params = ([17, 59],)
    param_names = ("N",)

    def setup(self, n):
        self.particles = ParticlesPage(Document())
        self.particles.settings.param.update(n=n, step_size=0.001)
        self.training = TrainingPage(Document())
        self.training.settings.n = n
        for page in (self.particles, self.training):
            page.player.start()
            page.frame(True)

    def time_particles(self, n):
        self.particles.frame(True)

    def time_training(self, n):
        self.training.frame(True)
