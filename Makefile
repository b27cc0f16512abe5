# The two commands of the README are `make demo` and `make test`; `make help` lists the rest.
# Needs make and Python 3.11, 3.12 or 3.13; everything else goes into .venv, pinned by requirements.lock.

SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CLUSTER := .hyphae-cluster
CODE := proto mesh mcp_gateway node deploy
CLIENTS := tests/clients
CLIENT_STAMPS := $(CLIENTS)/node_modules/.installed $(CLIENTS)/.venv-mcp1/.installed $(CLIENTS)/.venv-fastmcp/.installed

# The first Python that fits, unless PYTHON names one.  Each is tried, since a name alone proves nothing.
FITS := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c '$(FITS)' >/dev/null 2>&1 && { echo "$$p"; break; }; done)

.PHONY: help setup demo test clients check format docs up cluster down load bench sim image chaos chaos-long chaos-smoke clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## make the environment (.venv), or do nothing when it is current

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" && "$(PYTHON)" -c '$(FITS)' 2>/dev/null || { \
		echo "error: Python 3.11, 3.12 or 3.13 with the venv module is needed. Tried: $${PYTHON:-python3, python3.13, python3.12, python3.11}." >&2; \
		echo "On Debian or Ubuntu: apt-get install python3 python3-venv. Or name one: make setup PYTHON=/path/to/python3.12" >&2; \
		exit 1; }
	@rm -f $(STAMP)
	@$(BIN)/python -c '$(FITS)' 2>/dev/null || "$(PYTHON)" -m venv --clear $(VENV)
	@echo "Installing what requirements.lock pins into $(VENV): a minute or two, once."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $(STAMP)

demo: setup ## a short real story: three peers, three agents, one crash
	$(BIN)/python -m deploy.demo.story

test: setup ## all tests but those of `make clients`
	$(BIN)/python -m pytest -q

clients: setup $(CLIENT_STAMPS) ## the official MCP clients and conformance suite; needs Node.js and npm
	$(BIN)/python -m pytest -q $(CLIENTS)

$(CLIENTS)/node_modules/.installed: $(CLIENTS)/package-lock.json
	@node -e 'process.exit(Number(process.versions.node.split(".")[0] < 20))' 2>/dev/null && npm --version >/dev/null 2>&1 || { \
		echo "error: make clients needs Node.js 20 or newer and npm on the path: some of the clients run on it." >&2; \
		echo "Install both and try again. make test needs neither." >&2; \
		exit 1; }
	@echo "Installing what $< pins into $(CLIENTS)/node_modules: half a minute, once."
	@cd $(CLIENTS) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

$(CLIENTS)/.venv-%/.installed: $(CLIENTS)/requirements-%.lock | $(STAMP)
	@echo "Installing what $< pins into $(@D): half a minute, once."
	@$(BIN)/python -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

check: setup ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict $(CODE)
	$(BIN)/mypy --strict --explicit-package-bases tests
	$(BIN)/lint-imports

format: setup ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup ## write the generated pages anew: docs/cli.md, settings.md, conformance.md, rest.md, tools/, llms.txt
	$(BIN)/python -m node.cli.reference_docs
	$(BIN)/python -m mcp_gateway.rest_docs
	$(BIN)/python -m tests.conformance.mcp.page
	$(BIN)/python -m tests.reference

up: setup ## run a mesh of one peer in the foreground
	@exec $(BIN)/hyphae up

cluster: setup ## run three peers in the background, with data in .hyphae-cluster
	@$(BIN)/hyphae up --peers 3 --detach --data-dir $(CLUSTER)

down: ## stop what `make cluster` started, and nothing else
	@if test -x $(BIN)/hyphae; then $(BIN)/hyphae down --data-dir $(CLUSTER); else echo "Nothing runs."; fi

load: setup ## 200 agents and 20 gateways on one peer: 60 s of calls, then more than it can take
	$(BIN)/python -m tests.load

bench: setup ## measure the figures of docs/benchmarks.md on this machine; QUICK=1 with shorter logs
	$(BIN)/python -m tests.benchmarks.run $(if $(QUICK),--quick)

sim: setup ## simulated histories: RUNS=100 seeds of each simulation from SEED=0, or MINUTES=10 on all cores; OF= BUG=
	$(BIN)/python -m tests.simulation --of $(or $(OF),all) --seed $(or $(SEED),0) $(if $(MINUTES),--minutes $(MINUTES),--runs $(or $(RUNS),100)) $(if $(WORKERS),--workers $(WORKERS)) $(if $(BUG),--bug "$(BUG)")

image: setup ## build the container image; BASE_IMAGE=python:3.12-slim IMAGE=hyphae-mesh:local unless given
	@BASE_IMAGE="$(BASE_IMAGE)" IMAGE="$(IMAGE)" PYTHON=$(BIN)/python deploy/build-image.sh

chaos: setup ## break a real mesh in many ways and check every promise; ON=processes SECONDS=20 SEED= SCENARIO= BEHIND=300
	$(if $(BEHIND),CHAOS_BEHIND=$(BEHIND)) $(BIN)/python -m tests.chaos $(SCENARIO) --on $(or $(ON),processes) --seconds $(or $(SECONDS),20) $(if $(SEED),--seed $(SEED))

chaos-long: setup ## pairs of faults for MINUTES=60, with ever further seeds; ON=processes
	$(BIN)/python -m tests.chaos pairs mixed --on $(or $(ON),processes) --seconds 60 --minutes $(or $(MINUTES),60)

chaos-smoke: setup ## each fault that containers offer once on a mesh of them, at most 15 minutes; needs a Docker engine and `make image`
	timeout 900 $(BIN)/python -m tests.chaos mixed disks --on containers --seconds 0 $(if $(SEED),--seed $(SEED))

clean: down ## remove the environment and everything generated; data in .hyphae-cluster stays
	rm -rf $(CLIENTS)/node_modules $(CLIENTS)/.venv-*
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
