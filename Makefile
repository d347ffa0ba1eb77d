# Everything a developer does. Needs make and Python 3.11 or later; the rest is fetched and built
# once, into .venv and into the user's cache.

UV_VERSION := 0.13.8
PYTHON ?= python3
ARGS ?=
# Processes that tests are spread over: about one core each.
WORKERS ?= 2
# The same for tests on control planes. Each starts its own, in a folder of its own and on free ports.
# They wait more than they compute: two for each core.
CONTROL_PLANES ?= $(shell echo $$((2 * $(WORKERS))))
# pytest ends with 5 where it found no test; that is no failure where ARGS chose some of them.
NONE_CHOSEN = $(if $(ARGS),[ $$? -eq 5 ],false)
# What `make coverage` adds; the floor is in pyproject.toml.
MEASURED := --cov --cov-report=

# Operators of other projects, which are built from their released sources.
PARTNERS := tests/cluster/partners
# The page in a real browser.
PAGE := tests/cluster/page tests/bench/tests/page

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gang-extender
UV_FOLDER := $(CACHE)/uv-$(UV_VERSION)
UV := $(or $(shell command -v uv),$(UV_FOLDER)/bin/uv)
BIN := .venv/bin

export UV
export UV_PYTHON_DOWNLOADS ?= never
# Where the machine has a list of authorities, a company's own is in it and not in uv's.
SYSTEM_CERTIFICATES := $(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt)
export UV_SYSTEM_CERTS ?= $(if $(SYSTEM_CERTIFICATES),true,false)
unexport VIRTUAL_ENV
# Our processes start a hundred times in the tests; without bytecode each start takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help simulate demo playground test coverage test-long test-partners partners test-page chromium check soak-properties bench bench-queue bench-loop bench-page bench-extender chaos clean environment toolchain helm promtool prometheus kubectl

help: ## say what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

simulate: environment ## simulate two gangs that would block each other, or another scenario (ARGS=...)
	@$(BIN)/gang-extender simulate $(or $(ARGS),docs/examples/two-gangs.yaml)

demo: toolchain ## show gangs being scheduled on a control plane of its own (ARGS=...)
	$(BIN)/gang-extender demo $(ARGS)

playground: toolchain kubectl ## keep a control plane with four nodes for the tutorial, until Ctrl-C
	@$(BIN)/gang-extender demo --playground

# Control planes start and end with the tests: their memory is cheaper than collecting its garbage.
test test-long: export GOGC ?= 400
# With COVERAGE=1 the fast ones measure branch coverage as `make coverage` does, which takes longer.
test: toolchain helm promtool kubectl ## run the tests: the fast ones, then those on control planes (ARGS=, WORKERS=, COVERAGE=)
	@failed=0; part() { $(BIN)/pytest "$$@" $(ARGS) || $(NONE_CHOSEN) || failed=1; }; \
	part tests/unit tests/protocol -n $(WORKERS) $(if $(COVERAGE),$(MEASURED)); \
	(export EXAMPLES=$(or $(EXAMPLES),0.3); part tests/properties -n $(WORKERS); exit $$failed) || failed=1; \
	part tests/cluster --ignore=$(PARTNERS) $(PAGE:%=--ignore=%) -n $(CONTROL_PLANES) -m "not long" --dist loadfile --no-loadscope-reorder --durations=10; \
	exit $$failed

coverage: environment ## run the fast tests and fail below the floor of branch coverage (WORKERS=)
	$(BIN)/pytest tests/unit tests/protocol -n $(WORKERS) $(MEASURED)

test-long: toolchain ## run tests of benchmarks, all examples, repetitions, races, large numbers (ARGS=, WORKERS=)
	@failed=0; part() { $(BIN)/pytest "$$@" --durations=10 $(ARGS) || $(NONE_CHOSEN) || failed=1; }; \
	part tests/properties -n $(WORKERS); \
	part tests/bench $(PAGE:%=--ignore=%) -n $(WORKERS) -m "not long" --dist loadfile; \
	part tests/bench tests/cluster --ignore=$(PARTNERS) $(PAGE:%=--ignore=%) -n $(CONTROL_PLANES) -m long --dist worksteal; \
	exit $$failed

test-partners: export GOGC ?= 400
test-partners: partners ## run the tests beside the operators of other projects (ARGS=, WORKERS=)
	$(BIN)/pytest $(PARTNERS) -n $(WORKERS) --dist loadgroup --durations=10 $(ARGS)

test-page: export GOGC ?= 400
test-page: chromium promtool prometheus ## look at the live page with Chromium; pictures go to dist/pictures (ARGS=)
	$(BIN)/pytest $(PAGE) --durations=10 $(ARGS)

chromium: toolchain ## fetch Chromium from Debian's packages, where it is missing
	@$(BIN)/python -m tests.harness.chromium

partners: toolchain ## build these operators from their released sources, where they are missing
	$(BIN)/python -m tests.harness.partners

check: environment ## look at format, lint, types, layers, the reference of settings and size
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/gang-extender render settings | diff -u docs/configuration.md - # `make render` mends it
	@$(BIN)/python -m tests.size

soak-properties: export EXAMPLES ?= 100
soak-properties: environment ## play 100 times as many examples of the property tests (EXAMPLES=, ARGS=...)
	$(BIN)/pytest tests/properties --hypothesis-show-statistics $(ARGS)

bench: toolchain ## measure throughput and latency on a control plane of its own (ARGS=...)
	$(BIN)/python -m tests.bench $(ARGS)

bench-queue: toolchain ## measure admission under quota, and real Jobs (ARGS=...)
	$(BIN)/python -m tests.bench.queue $(ARGS)

bench-loop: environment ## measure how long one step of either process takes (ARGS=...)
	$(BIN)/python -m tests.bench.loop $(ARGS)

bench-page: chromium ## measure how soon a browser shows a large cluster and its changes (ARGS=...)
	$(BIN)/python -m tests.bench.page $(ARGS)

bench-extender: environment ## measure what a pod costs the extender alone, between stand-ins (ARGS=...)
	$(BIN)/python -m tests.bench.extender $(ARGS)

chaos: toolchain ## kill, cut and confuse everything under load, for an hour (ARGS=...)
	$(BIN)/python -m tests.chaos $(ARGS)

.PHONY: dist
dist: environment ## build wheel, sdist, SBOM and their hashes into dist/, the same bytes each time
	$(BIN)/python -m tests.dist

.PHONY: render
render: environment ## write the reference of the settings, docs/configuration.md
	text=$$($(BIN)/gang-extender render settings) && printf "%s\n" "$$text" > docs/configuration.md

clean: ## remove the environment and what tools leave behind (not the built binaries)
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

environment: $(UV) ## make .venv from uv.lock
	@$(UV) sync --frozen

toolchain: environment
	@$(BIN)/python -m tests.harness.toolchain

# Renders the chart for the tests; the demo does without.
helm: environment
	@$(BIN)/python -m tests.harness.toolchain helm

# Judges the alerts in the tests; the demo does without.
promtool: environment
	@$(BIN)/python -m tests.harness.toolchain promtool

# The page reads the past from it.
prometheus: environment
	@$(BIN)/python -m tests.harness.toolchain prometheus

# For the tutorial, and its tests, on a machine that has none.
kubectl: environment
	@$(BIN)/python -m tests.harness.toolchain kubectl

# A Debian without python3-venv can still have pip; both ways end with bin/uv in the folder.
$(UV_FOLDER)/bin/uv:
	@mkdir -p $(CACHE)
	$(PYTHON) -m venv $(UV_FOLDER) && $(UV_FOLDER)/bin/pip install --quiet uv==$(UV_VERSION) \
		|| $(PYTHON) -m pip install --quiet --upgrade --target $(UV_FOLDER) uv==$(UV_VERSION)
