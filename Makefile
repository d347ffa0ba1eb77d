# Everything a developer does. Needs make and Python 3.11 or later; the rest is fetched and built
# once, into .venv and into the user's cache.

UV_VERSION := 0.13.8
PYTHON ?= python3
ARGS ?=
# pytest ends with 5 where it found no test; that is no failure where ARGS chose some of them.
NONE_CHOSEN = $(if $(ARGS),[ $$? -eq 5 ],false)

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

.DEFAULT_GOAL := help
.PHONY: help demo test check soak-properties bench bench-queue bench-indexed bench-loop chaos clean environment toolchain

help: ## say what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: toolchain ## show gangs being scheduled on a control plane of its own (ARGS=...)
	$(BIN)/gang-extender demo $(ARGS)

test: toolchain ## run all tests: the fast ones, then those on a real control plane (ARGS=...)
	@failed=0; part() { $(BIN)/pytest "$$@" $(ARGS) || $(NONE_CHOSEN) || failed=1; }; \
	part tests --ignore=tests/cluster --ignore=tests/bench -n 2; \
	part tests/cluster -n 2 --dist loadfile --durations=10; \
	exit $$failed

check: environment ## look at format, lint, types, layers and rendered manifests
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/gang-extender render --check

soak-properties: export EXAMPLES ?= 100
soak-properties: environment ## play 100 times as many examples of the property tests (EXAMPLES=, ARGS=...)
	$(BIN)/pytest tests/properties --hypothesis-show-statistics $(ARGS)

bench: toolchain ## measure throughput and latency on a control plane of its own (ARGS=...)
	$(BIN)/python -m tests.bench $(ARGS)

bench-queue: toolchain ## measure admission under quota, then quota with room on nodes (ARGS=...)
	$(BIN)/python -m tests.bench.queue $(ARGS)

bench-indexed: environment ## measure what it costs when an index of a Job is done (ARGS=...)
	$(BIN)/python -m tests.bench.indexed $(ARGS)

bench-loop: environment ## measure how long one step of either process takes (ARGS=...)
	$(BIN)/python -m tests.bench.loop $(ARGS)

chaos: toolchain ## kill, cut and confuse everything under load, for an hour (ARGS=...)
	$(BIN)/python -m tests.chaos $(ARGS)

clean: ## remove the environment and what tools leave behind (not the built binaries)
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

environment: $(UV)
	@$(UV) sync --frozen

toolchain: environment
	@$(BIN)/python -m tests.harness.toolchain

# A Debian without python3-venv can still have pip; both ways end with bin/uv in the folder.
$(UV_FOLDER)/bin/uv:
	@mkdir -p $(CACHE)
	$(PYTHON) -m venv $(UV_FOLDER) && $(UV_FOLDER)/bin/pip install --quiet uv==$(UV_VERSION) \
		|| $(PYTHON) -m pip install --quiet --upgrade --target $(UV_FOLDER) uv==$(UV_VERSION)
