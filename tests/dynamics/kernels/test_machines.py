"""Kernels on machines without a home folder, a writable cache, compilation or a safe
threading layer, and in processes that were forked."""

import os
import pwd
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dynamics
from dynamics.folders import absolute_folder, expand_home, user_cache_folder
from dynamics.settings import SettingsError

MODULE = """
import numba
from dynamics.kernels.compiling import cached_kernel, kernel_function

@kernel_function
def doubled(x):
    return 2 * x

@cached_kernel()
def six(x):
    return 3 * doubled(x)

@cached_kernel(parallel=True)
def squares(count):
    total = 0
    for i in numba.prange(count):
        total += i * i
    return total
"""
SERIAL = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import kernels
    print(kernels.six(2))
    from dynamics.kernels import simd
ours = [w for w in caught if "training-dynamics" in str(w.message) or "kept" in str(w.message)]
print(len(ours), type(kernels.six).__name__)
"""
THREADS = """
import threading, kernels
def work():
    for _ in range(300): kernels.squares(2000)
work()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("threads", kernels.squares(4))
import multiprocessing
def squares(count):
    try: return kernels.squares(count)
    except Exception as error: return f"{type(error).__name__}: {error}"
with multiprocessing.get_context("fork").Pool(2) as pool:
    print("fork", pool.map_async(squares, [4]).get(60))
"""


@pytest.fixture
def run(tmp_path, environment):
    """A function that runs Python code beside a module of kernels."""
    (tmp_path / "kernels.py").write_text(MODULE)
    (tmp_path / "sitecustomize.py").write_text(
        "import pwd\ndef none(uid): raise KeyError(uid)\npwd.getpwuid = none\n"
    )

    def run(code, **changed):
        words = {**environment, "PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}
        root = str(Path(dynamics.__file__).parents[1])
        words["PYTHONPATH"] = f"{tmp_path}:{root}"
        words = {name: value for name, value in (words | changed).items() if value}
        command = [sys.executable, "-c", code]
        return subprocess.run(
            command, env=words, cwd=tmp_path, capture_output=True, text=True
        )

    return run


WITHOUT_CACHE = {"HOME": None, "XDG_CACHE_HOME": None, "NUMBA_CACHE_DIR": None}


@pytest.mark.parametrize(
    "changed",
    [
        WITHOUT_CACHE,
        WITHOUT_CACHE | {"XDG_CACHE_HOME": "~/.cache", "NUMBA_CACHE_DIR": "~/numba"},
        {"NUMBA_CACHE_DIR": os.devnull},
        {"NUMBA_DISABLE_JIT": "1"},
    ],
    ids=["no home", "tilde", "not a folder", "not compiled"],
)
def test_kernels_run_with_one_warning(run, tmp_path, changed):
    result = run(SERIAL, **changed)
    assert result.stdout == "12\n1 CPUDispatcher\n", result.stderr
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize("layer", ["workqueue", "omp"])
def test_threads_and_forked_processes_run_kernels_or_say_why_not(run, layer):
    result = run(THREADS, NUMBA_THREADING_LAYER=layer, NUMBA_NUM_THREADS="2")
    assert result.returncode == 0, result.stderr
    threads, fork = result.stdout.splitlines()
    assert threads == "threads 14"
    if layer == "workqueue":
        assert fork == "fork [14]"
    else:
        assert "get_context('spawn')" in fork or fork == "fork [14]"  # other OpenMP


TORCH = """
import multiprocessing, torch
from dynamics.networks import derivatives
torch.set_num_threads(2)
def product(size):
    return float((torch.ones(size, size) @ torch.ones(size, size)).sum())
before = product(600)
with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.map_async(product, [600]).get(60) == [before])
"""


def test_torch_runs_in_a_forked_process(run):
    result = run(TORCH)
    assert result.stdout == "True\n", result.stderr


def test_a_cache_that_cannot_be_written_is_read(run, tmp_path):
    cache = tmp_path / "cache"
    code = "import kernels; print(kernels.six(2), kernels.six(SECOND), *kernels.six.stats.cache_hits.values())"
    first = run(code.replace("SECOND", "2"), NUMBA_CACHE_DIR=str(cache))
    for folder in cache.iterdir():
        (folder / "lock").unlink(missing_ok=True)
        (folder / "lock").mkdir()  # cannot be locked, whoever runs the test
    again = run(code.replace("SECOND", "0.5"), NUMBA_CACHE_DIR=str(cache))
    assert first.stdout == "12 12\n", first.stderr
    assert again.stdout == "12 3.0 1\n", again.stderr


def test_simulations_run_outside_the_main_thread():
    results = []

    def work():
        settings = dynamics.ParticleSettings(n=5)
        results.append(dynamics.simulate(settings, runs=1, steps=2))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results[0].sizes["step"] == 3


@pytest.fixture(scope="module")
def without_passwd():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pwd, "getpwuid", lambda uid: {}[uid])
        yield


@given(
    home=st.sampled_from([None, "", "~", "home", "/home/me", "~/x"]),
    cache=st.sampled_from([None, "", "~/.cache", "cache", "/cache", "./c"]),
)
def test_no_folder_is_relative(without_passwd, home, cache):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("HOME", home), ("XDG_CACHE_HOME", cache)):
            if value is None:
                patch.delenv(name, raising=False)
            else:
                patch.setenv(name, value)
        folder = user_cache_folder()
        assert folder is None or folder.is_absolute()
        if cache == "/cache":
            assert folder == Path("/cache/training-dynamics")
        if home == "/home/me" and cache in (None, "", "cache", "./c"):
            assert folder == Path("/home/me/.cache/training-dynamics")
        if home in (None, "~", "home"):
            assert (folder is None) == (cache != "/cache")


def test_the_home_folder_takes_the_place_of_a_tilde(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    dynamics.simulate(
        dynamics.ParticleSettings(n=5), runs=1, steps=2, out="~/mine.nc"
    ).close()
    assert (tmp_path / "mine.nc").is_file()
    assert dynamics.open_trajectory("~/mine.nc").sizes["step"] == 3
    assert absolute_folder("~") == tmp_path
    assert expand_home("~mine.nc") == Path("~mine.nc")


def test_a_tilde_without_a_home_folder_is_refused(
    monkeypatch, without_passwd, tmp_path
):
    monkeypatch.delenv("HOME")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match="the user has no home folder"):
        dynamics.simulate(dynamics.ParticleSettings(n=5), steps=2, out="~/mine.nc")
    assert not (tmp_path / "~").exists()
