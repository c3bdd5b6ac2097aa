# `make` lists what can be done; every target does its own set-up.

VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
ARGS   ?=
IMAGE  ?= plumbline:$(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
BASE   ?=

.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): requirements-dev.lock pyproject.toml .ci/bootstrap
	@.ci/bootstrap $(VENV)
	@touch $@

install: $(STAMP) ## create .venv and install the locked versions

run: $(STAMP) ## run all of it here, on a cluster in memory
	@$(BIN)/plumbline run $(ARGS)

fmt: $(STAMP) ## format the code
	@$(BIN)/ruff check --quiet --fix-only . && $(BIN)/ruff format --quiet .

check: $(STAMP) ## lint, types, imports, generated files
	@$(BIN)/ruff format --check --quiet . || { echo "run 'make fmt'"; exit 1; }
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

test: $(STAMP) ## run all tests that need no cluster
	@$(BIN)/python -m pytest $(ARGS)

cover: $(STAMP) ## tests with branch coverage; what decides must be covered whole
	@$(BIN)/coverage run -m pytest -q $(ARGS)
	@$(BIN)/coverage report --include='app/model/*,app/sizing/*,app/*/core/*' --show-missing --fail-under=100 --skip-covered

generate: $(STAMP) ## write docs/flags.md, metrics.md, api.md and the README's picture, copy manifests
	@$(BIN)/python -c 'from app.cli.pages import flags_page; print(flags_page(), end="")' >docs/flags.md
	@$(BIN)/python -c 'from app.commands.metrics_page import page; print(page(), end="")' >docs/metrics.md
	@$(BIN)/python -c 'from app.commands.api_page import api_page; print(api_page(), end="")' >docs/api.md
	@$(BIN)/python -m tests.flows.demo_picture
	@for name in crd admission recommender updater; do cp app/kube/manifests/$$name.yaml deploy/base/$$name; done
	@cp app/kube/manifests/page.yaml deploy/components/page
	@cp app/kube/manifests/trials.yaml deploy/components/prove-by-trial
	@cp app/kube/manifests/summaries.yaml deploy/components/vpa-summaries
	@cp app/kube/manifests/role-leases.yaml app/kube/manifests/role-usage.yaml deploy/components/role-leases
	@cp app/kube/manifests/external-metrics.yaml deploy/components/external-metrics/rights.yaml
	@cp app/kube/manifests/crd.yaml deploy/monitoring/fleet.json deploy/monitoring/workload.json deploy/chart/files

browser: $(STAMP) ## look at the pages in a headless Chromium; Debian's packages chromium and chromium-driver
	@$(BIN)/python -m pytest tests/browser $(ARGS)

cluster: $(STAMP) ## build the cluster that acceptance tests start; needs Go
	@$(BIN)/python -m tests.cluster build

acceptance: cluster ## tests on a real cluster, built here or named by KUBECONFIG
	@$(BIN)/python -m tests.acceptance $(ARGS)

parity: $(STAMP) ## compare replay with the upstream recommender on random stories; needs Go
	@$(BIN)/python -m tests.parity $(ARGS)

soak: $(STAMP) ## play a week with faults on a cluster in memory; takes half an hour
	@$(BIN)/python -m tests.soak $(ARGS)

bench: $(STAMP) ## measure beside upstream; needs Go and wrk, takes 45 minutes
	@$(BIN)/python -m bench $(ARGS)

bench-%: $(STAMP)
	@$(BIN)/python -m bench $* $(ARGS)

image: ## build the container image IMAGE upon BASE, and list what is in it; needs docker
	@.ci/build-image $(IMAGE) $(BASE)

lock: ## compute the lock files again
	@.ci/lock

clean: ## remove what the other targets made
	@rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build *.egg-info

.PHONY: help install run fmt check test cover generate browser cluster acceptance parity soak bench image lock clean
