"""Compiled kernels are shared by all processes and all copies of the source, and a
changed source compiles anew."""

import shutil
import subprocess
import sys

import pytest

KERNEL = """
import sys
from dynamics.kernels.compiling import cached_kernel
import inlined

@cached_kernel(inlined)
def doubled(x):
    return inlined.two() * x

if __name__ == "__main__":
    import kernel
    print(kernel.doubled(int(sys.argv[1])), sum(kernel.doubled.stats.cache_misses.values()))
"""
INLINED = "import numba\n\n@numba.njit\ndef two():\n    return {}\n"


@pytest.fixture
def start(tmp_path, environment):
    """A function that starts `kernel.doubled(x)` in a new process, from a copy of the
    source in a folder."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "kernel.py").write_text(KERNEL)
    (tmp_path / "one" / "inlined.py").write_text(INLINED.format(2))
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    cached = {**environment, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def start(folder, x):
        words = [sys.executable, str(tmp_path / folder / "kernel.py"), str(x)]
        return subprocess.Popen(words, env=cached, stdout=subprocess.PIPE, text=True)

    return start


def test_processes_and_copies_share_compiled_kernels(start, tmp_path):
    processes = [start("one", 3), start("other", 4)]  # at the same time
    result = sorted(process.communicate()[0].split() for process in processes)
    assert [value for value, _ in result] == ["6", "8"]
    assert sorted(misses for _, misses in result) == ["0", "1"]
    (tmp_path / "other" / "inlined.py").write_text(INLINED.format(5))
    assert start("other", 4).communicate()[0].split() == ["20", "1"]
