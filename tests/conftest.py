"""Fixtures and strategies that several test modules share."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

# Compiling a kernel takes seconds the first time, so no example has a deadline; examples repeat from run to run.
settings.register_profile(
    "default", deadline=None, max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Every test works in an empty folder of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def environment():
    """The environment of a subprocess that finds the packages from anywhere."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def generator():
    return np.random.default_rng(20240814)
