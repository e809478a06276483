"""Kernels for a CUDA device compile without a device, where NVIDIA's compiler is."""

import json
import subprocess
import sys

import pytest

from tests.dynamics.kernels.compiled_cuda import compiler_is_found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_kernel_compiles_for_a_device(environment):
    """Without memory of a thread outside its registers, and with fused products."""
    if not compiler_is_found():
        pytest.skip("numba-cuda, NVVM or NVRTC is not installed")
    environment.pop("NUMBA_ENABLE_CUDASIM", None)
    words = [sys.executable, "-m", "tests.dynamics.kernels.compiled_cuda"]
    result = subprocess.run(
        words, env=environment, check=True, capture_output=True, text=True
    )
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert {row["kernel"] for row in rows} == {
        "train_modular",
        "score_modular",
        "train_sparse",
        "score_sparse",
        "move_particles",
        "sum_pairs",
        "sum_fields",
    }
    for row in rows:
        assert row["fma.rn.f32"] + row["fma.rn.f64"] > 0, row
        assert row["ld.local"] == 0, row
