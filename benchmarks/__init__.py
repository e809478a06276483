"""Benchmarks, run by asv: cd benchmarks && asv run --python=same."""
