"""Fixtures of all tests, those of examples in docstrings included."""

import pytest

from dynamics.settings import SETTINGS_CLASSES
from dynamics.system import SYSTEM_CLASSES

collect_ignore = [
    f"dynamics/recording/{name}_callback.py" for name in ("trainer", "lightning")
]
"""Modules without examples to run, whose imports take seconds."""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Every test works in an empty folder of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def restored_registries():
    """The systems that a test registers are not known after it."""
    before = [dict(each) for each in (SETTINGS_CLASSES, SYSTEM_CLASSES)]
    yield
    for each, kept in zip((SETTINGS_CLASSES, SYSTEM_CLASSES), before, strict=True):
        each.clear()
        each.update(kept)


@pytest.fixture(autouse=True)
def examples_register_nothing(request):
    """Systems that an example registers are not known after it."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("restored_registries")
