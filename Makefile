# All set-up goes through constraints.txt, which pins the versions this was tested with.
# pip prints only errors: its warnings are about indexes and settings of the machine.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test test-all test-portable lint docs pictures bench gpu-check browser wheel clean

help:
	@echo "make demo       set up the light core and reproduce a row of a table in a minute"
	@echo "make test       set up everything, check style, types and imports, and run the tests"
	@echo "make test-all   the same with the slow tests"
	@echo "make test-portable  run the numeric tests as on other processors, versions, users and places; for releases"
	@echo "make browser    install Debian's Chromium and axe-core, without which the tests of the explorer's page are skipped"
	@echo "make docs       build the documentation site into docs/_build, and run its notebooks"
	@echo "make pictures   draw the gallery's pictures from their stored data"
	@echo "make bench      run the benchmarks in this environment"
	@echo "make gpu-check  compare a GPU with the CPU, measure speeds, run the CUDA tests, write gpu-check.json; status 3 without a CUDA device"
	@echo "make wheel      build the wheel and the source distribution into dist/"
	@echo "make clean      remove the environment and the caches in this folder, but no runs"

demo: .venv/core
	$(BIN)/python -m sims.particles --fa 2.0

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" --numprocesses 2 --dist loadfile

test-all: lint
	$(BIN)/python -m pytest

test-portable: .venv/full
	$(BIN)/python -m tests.portability

lint: .venv/full
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

browser:
	@command -v chromium >/dev/null || { \
		as=$$(test "$$(id -u)" = 0 || echo sudo); \
		$$as apt-get update -qq && $$as env DEBIAN_FRONTEND=noninteractive \
			apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; }
	@chromium --version 2>/dev/null
	@test -f .browser/node_modules/axe-core/axe.min.js || \
		npm install --silent --no-save --no-audit --no-fund --prefix .browser axe-core@4.14.1 || \
		echo "make browser: npm could not install axe-core; the accessibility tests will be skipped" >&2

docs: .venv/full
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -d docs/_build/doctrees docs docs/_build/html

pictures: .venv/full
	$(BIN)/python docs/make_pictures.py

wheel: .venv/full
	rm -rf build dist
	$(BIN)/python -m build --outdir dist

bench: .venv/full
	cd benchmarks && ../$(BIN)/asv machine --yes
	cd benchmarks && ../$(BIN)/asv run --python=same --show-stderr

gpu-check: .venv/full
	$(BIN)/python -m benchmarks.gpu_check

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one with make PYTHON=...")'
	$(PYTHON) -m venv .venv

.venv/core: .venv/bin/python setup.cfg pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --quiet --no-compile --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

.venv/full: .venv/bin/python setup.cfg pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --quiet --no-compile --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	# torchvision comes with curvlinops, which does not use it. Built for CUDA, it makes
	# transformers fail beside a torch without CUDA.
	$(BIN)/python -m pip uninstall --quiet --quiet --disable-pip-version-check --yes torchvision
	@touch $@ .venv/core

clean:
	rm -rf .venv .browser build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache benchmarks/.asv docs/_build docs/reference/generated
	find dynamics analysis sims tests benchmarks -name __pycache__ -type d -exec rm -rf {} +
