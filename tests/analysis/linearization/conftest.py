"""Fixtures of the tests of the linearised flow."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _single_thread():
    """The Hessians are so small that threads take longer to start than to compute."""
    torch.set_num_threads(1)
