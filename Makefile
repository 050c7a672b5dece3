# `make` explains itself. The environment lives in .venv, and a stamp in it remembers what is installed: as long
# as pyproject.toml stays the same, nothing is installed again and no network is needed.

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

# The first interpreter that is new enough. To choose another: make PYTHON=/path/to/python test
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$python -c '$(NEW_ENOUGH)' 2>/dev/null && { echo $$python; break; }; done)

# Tools run as modules: their scripts break when the path to .venv is long or has blanks in it.
RUN := .venv/bin/python
# Modules are compiled when they are first imported: most of what is installed never is.
INSTALL := PIP_DISABLE_PIP_VERSION_CHECK=1 $(RUN) -m pip install --quiet --no-compile --editable

.DEFAULT_GOAL := help
.PHONY: help demo test check docs prove soak cluster chaos bench bench-quick pictures clean browser page lint types tests collected

help: ## list what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile

demo: .venv/.package ## see the package at work
	@$(RUN) -m hypergraph.demo
	@command -v hypergraph >/dev/null || echo "The command is in .venv; first type: . .venv/bin/activate"

# What is installed by different programs, and what is checked by them, goes side by side.
test: ## everything that must hold: lint, format, types, tests
	@$(MAKE) --no-print-directory --jobs=3 lint types page tests

lint: .venv/.dev
	@echo "==> lint: ruff check"
	@$(RUN) -m ruff check .
	@echo "==> format: ruff format --check"
	@$(RUN) -m ruff format --check .

types: .venv/.dev
	@echo "==> types: mypy"
	@$(RUN) -m mypy

# Tests start many processes, which would compile the package again and again without its bytecode. Three workers
# keep two cores busy: many tests wait for a process, a browser or a timer.
tests: .venv/.dev browser lint collected
	@echo "==> tests: pytest"
	@CHROMIUM="$(CHROMIUM)" PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest -n 3 --dist worksteal -q

# Every worker collects all tests. One process does so first: it compiles their modules for all workers.
collected: .venv/.dev
	@PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest --collect-only -qq >.venv/collected || { cat .venv/collected; exit 1; }

# The modules of the web page: their types, which stand in comments, and tests of the parts that need no browser.
# The page itself is served as it is; npm installs the type checker and the types of the libraries, and nothing else.
page: node_modules/.package-lock.json
	@echo "==> types of the page: tsc"
	@npm run --silent check
	@echo "==> tests of the page: node"
	@npm test --silent

# After the browser: apt-get installs for one at a time.
node_modules/.package-lock.json: package.json package-lock.json | browser
	@command -v npm >/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "==> installing npm"; \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq nodejs npm >/dev/null; \
		else echo "The check of the page needs Node 20 with npm (apt-get install nodejs npm)" >&2; exit 1; fi; }
	@npm ci --silent --no-audit --no-fund --ignore-scripts
	@touch $@

# The tests of the web page look at it in a real browser.
browser:
	@for name in $(CHROMIUM) chromium-headless-shell chromium chromium-browser google-chrome; do \
		command -v "$$name" >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "==> installing chromium"; \
		apt-get update -qq && export DEBIAN_FRONTEND=noninteractive && \
		for name in chromium-headless-shell chromium; do \
			apt-get install -y -qq "$$name" >/dev/null && exit 0; done; fi; \
	echo "The tests need Chromium. Install it (apt-get install chromium), or say where it is:" >&2; \
	echo "make CHROMIUM=/path/to/chromium test" >&2; exit 1

check: .venv/.dev ## apply the format and the safe fixes, then check lint and types
	@echo "==> format: ruff format"
	@$(RUN) -m ruff format .
	@echo "==> lint: ruff check --fix"
	@$(RUN) -m ruff check --fix .
	@echo "==> types: mypy"
	@$(RUN) -m mypy

docs: .venv/.dev ## build the site into build/site
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet
	@echo "build/site/index.html"

prove: .venv/.dev ## crash, tear, race and corrupt stored runs; print what held
	@echo "==> proving (two to three hours on two cores)"
	@$(RUN) tests/prove.py

soak: .venv/.dev ## the same, ten times as much
	@echo "==> proving (about two hours)"
	@$(RUN) tests/prove.py --scale 10

cluster: .venv/.dev ## nodes on Ray and MPI, and lines that are cut; installs half a gigabyte, needs root for the lines
	@echo "==> installing Ray and MPI into .venv"
	@$(INSTALL) '.[cluster]'
	@echo "==> tests: pytest tests/cluster"
	@$(RUN) -m pytest -q tests/cluster

chaos: .venv/.dev ## 1,000 runs on a cluster that is disturbed all the time; print what came of them
	@echo "==> disturbing a cluster (three to ten minutes)"
	@$(RUN) tests/chaos.py

bench: .venv/.dev ## compare everything with other libraries, write docs/benchmarks.md
	@echo "==> measuring (about ten minutes; the first time three more, to install the libraries into .bench)"
	@$(RUN) -m benchmarks.run
	@echo "==> trying what docs/explanation/comparison.md says of them"
	@for python in .bench/*/bin/python; do $$python -m benchmarks.facts || exit 1; done

bench-quick: .venv/.dev ## a part of it in two minutes, only printed; beside the libraries that are in .bench
	@$(RUN) -m benchmarks.run --quick

pictures: .venv/.dev browser ## draw the graphs and photograph the web page for the documentation
	@PYTHONPATH=src:tests $(RUN) docs/make_graph_images.py
	@CHROMIUM="$(CHROMIUM)" PYTHONPATH=src:tests $(RUN) docs/make_images.py
	@CHROMIUM="$(CHROMIUM)" PYTHONPATH=src:tests $(RUN) tests/support/tutorial.py

clean: ## remove .venv and everything else that was made
	@echo "==> removing .venv, caches and builds"
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks .bench build dist node_modules hypergraph-demo.db*
	@find . -name __pycache__ -prune -exec rm -rf {} +

# An environment that works is kept, whoever made it; a broken or outdated one is made anew.
.venv/.created:
	@$(RUN) -c 'import pip; $(NEW_ENOUGH)' 2>/dev/null || { \
		"$(PYTHON)" -c '$(NEW_ENOUGH)' 2>/dev/null || { \
			echo "hypergraph needs Python 3.11 or newer; '$(or $(PYTHON),python3)' is not." >&2; \
			echo "Install one, or say where it is: make PYTHON=/path/to/python $(MAKECMDGOALS)" >&2; exit 1; }; \
		echo "==> creating .venv with $$("$(PYTHON)" --version)"; \
		"$(PYTHON)" -m venv --clear .venv; }
	@touch $@

.venv/.package: pyproject.toml .venv/.created
	@echo "==> installing hypergraph into .venv"
	@$(INSTALL) .
	@touch $@

# The tools come with the package, so `make demo` has nothing left to install afterwards.
.venv/.dev: pyproject.toml .venv/.created
	@echo "==> installing hypergraph and the development tools into .venv (a minute, the first time)"
	@$(INSTALL) '.[dev]'
	@touch .venv/.package $@
