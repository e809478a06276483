"""Recording: the time that writing adds to a run, in parts or at once, and the time to
open a file."""

import shutil
import tempfile
from pathlib import Path

from dynamics.settings import ParticleSettings
from dynamics.simulation import simulate
from dynamics.trajectory import recorder
from dynamics.trajectory.reader import open_trajectory

SETTINGS = ParticleSettings(fa=2.0)


class Recording:
    """1000 runs of 100 steps, every step recorded: 28 MB."""

    params = ["in memory", "one file", "ten parts"]
    param_names = ("where",)
    timeout = 300

    def setup(self, where):
        self.folder = Path(tempfile.mkdtemp())
        self.part_bytes = recorder.PART_BYTES
        if where == "ten parts":
            recorder.PART_BYTES = 3 << 20
        simulate(SETTINGS, runs=8, steps=1, progress=False)

    def teardown(self, where):
        recorder.PART_BYTES = self.part_bytes
        shutil.rmtree(self.folder)

    def time_simulate(self, where):
        out = None if where == "in memory" else self.folder / "run.nc"
        simulate(SETTINGS, runs=1000, out=out, overwrite=True, progress=False).close()


class Reading:
    """Opening that file, which verifies its checksum, and reading one run or all
    runs."""

    def setup(self):
        self.folder = Path(tempfile.mkdtemp())
        simulate(
            SETTINGS, runs=1000, out=self.folder / "run.nc", progress=False
        ).close()

    def teardown(self):
        shutil.rmtree(self.folder)

    def time_open(self):
        open_trajectory(self.folder / "run.nc").close()

    def time_open_and_read_one_run(self):
        with open_trajectory(self.folder / "run.nc") as trajectory:
            trajectory["embedding"].isel(run=7).load()

    def time_open_and_read_all(self):
        with open_trajectory(self.folder / "run.nc") as trajectory:
            trajectory.load()
