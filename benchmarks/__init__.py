"""Benchmarks for asv. Run them with: cd benchmarks && asv run --python=same."""
