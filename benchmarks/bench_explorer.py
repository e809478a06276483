"""The explorer's page: how soon it is there, and how often live particles are computed and painted.

What needs a browser is left out where there is none.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bokeh.document import Document

from analysis.explorer.live_particles import ParticlesPage
from analysis.explorer.live_training import TrainingPage
from dynamics.settings import ParticleSettings
from dynamics.simulate import simulate

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
SECONDS = 4
PAINTS = """() => {
  window.paints = 0
  const look = (view) => {
    if (view.model?.name === "embedding") {
      const paint = view._actual_paint.bind(view)
      view._actual_paint = () => { window.paints += 1; paint() }
    }
    for (const child of view.child_views ?? []) look(child)
  }
  for (const root of Bokeh.index.roots) look(root)
}"""
DRAWN = "() => window.Bokeh && Bokeh.documents.length && Bokeh.documents[0].is_idle"


class InBrowser:
    """A served page and a headless Chromium."""

    timeout = 120

    def setup(self, *words):
        program = shutil.which("chromium")
        if program is None:
            raise NotImplementedError("no Chromium")
        from playwright.sync_api import sync_playwright

        command = [sys.executable, "-m", "analysis.explore", *self.files(), "--port", "0", "--no-browser"]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = re.search(r"http://\S+", self.server.stdout.readline()).group()
        self.playwright = sync_playwright().start()
        self.browser = self.playwright.chromium.launch(executable_path=program, args=FLAGS)
        self.page = self.browser.new_page(viewport={"width": 1400, "height": 900})

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
    """From asking for the page of a hundred runs until all of it is drawn; the first visit also fills caches."""

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


class Painted(InBrowser):
    """Frames of live particles a second that the browser has painted; the server sends no more than thirty."""

    params = ([17, 59],)
    param_names = ("N",)

    def track_frames_a_second(self, n):
        self.open(f"?tab=particles&fa=2&n={n}&step_size=0.001")
        self.page.evaluate(PAINTS)
        self.page.get_by_role("button", name="Start").click()
        self.page.wait_for_timeout(1000)
        before, start = self.page.evaluate("paints"), time.perf_counter()
        self.page.wait_for_timeout(1000 * SECONDS)
        return (self.page.evaluate("paints") - before) / (time.perf_counter() - start)

    track_frames_a_second.unit = "1/s"


class Frames:
    """A frame of what moves, on the server: a step, the structure, and what is sent."""

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
