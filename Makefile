# Everything a person or CI runs. Needs python3 >= 3.11 with venv and make; the real control plane also needs Go,
# the real node also root and the packages of tools/debian-packages.txt.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
UPGRADE ?= --upgrade

# The fast tests compute; most others wait for programs that they started, so two workers share a core. Tests that are
# marked so run alone after them; ARGS may select none of the ones or the others, which pytest says with 5.
CORES := $(shell nproc)
WORKERS ?= $(shell expr 2 \* $(CORES))
TOGETHER = $(BIN)/pytest --dist worksteal -n $(WORKERS)
OR_NONE = $(if $(ARGS),|| test $$? = 5)
unit: WORKERS = $(CORES)
unit: export GPULOOM_HYPOTHESIS_PROFILE = quick
# A machine that keeps Python from writing bytecode would compile every test anew in each worker.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test unit ci check docs chaos churns soak controlplane lock clean help fuzz audit sbom unit-all gpu publish

help: ## say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

# The environment is as the lock file says; it is made anew when that changes. All of it is compiled: a machine that
# keeps Python from writing bytecode would compile 600 modules at every start, for half a second.
$(READY): requirements.lock locks/uv.lock locks/build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "gpuloom needs Python 3.11 or newer; try make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "making .venv, once: this takes a minute or two" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || \
		{ echo "cannot make a virtual environment: install the package python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/uv.lock
	@$(BIN)/uv pip sync --quiet --require-hashes --compile-bytecode requirements.lock locks/uv.lock locks/build.lock
	@$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --offline --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@

demo: $(READY) ## start a cluster with simulated GPUs and show who gets what, until Ctrl-C
	@$(BIN)/gpuloom demo $(ARGS)

unit: $(READY) ## the fast tests (half a minute)
	$(TOGETHER) tests/unit tests/oracle -m "not long and not slow" $(ARGS)

unit-all: $(READY) ## what computes, slow tests too, on each supported Python that this machine has
	$(BIN)/python tools/pythons.py $(ARGS)

test: $(READY) ## all tests this machine has the tools for
	$(TOGETHER) -m "not long and not alone" $(ARGS) $(OR_NONE)
	$(BIN)/pytest -m "alone and not long" $(ARGS) $(OR_NONE)

check: $(READY) ## format, lint, types, layers
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

chaos: $(READY) ## ten minutes of the soak
	PYTHONPATH=tests $(BIN)/python benchmarks/soak.py --duration-s 600 $(ARGS)

churns: $(READY) ## random churns of pods of all priorities: was each eviction needed? CHURNS=1000 REAL_CHURNS=20 FIRST=0
	CHURNS=$(CHURNS) FIRST=$(FIRST) $(TOGETHER) tests/local/scheduler/test_preemption_churn.py $(ARGS)
	REAL_CHURNS=$(REAL_CHURNS) FIRST=$(FIRST) $(BIN)/pytest tests/real/scheduler/test_preemption_churn.py $(ARGS)

soak: $(READY) ## an hour of pods and faults over two schedulers on a real control plane; ends with a table
	PYTHONPATH=tests $(BIN)/python benchmarks/soak.py $(ARGS)

SECONDS ?= 600
CHURNS ?= 1000
REAL_CHURNS ?= 20
FIRST ?= 0

.venv/fuzz/ready: locks/fuzz.lock $(READY)
	@$(BIN)/uv pip install --quiet --target .venv/fuzz --require-hashes -r locks/fuzz.lock
	@touch $@

fuzz: .venv/fuzz/ready ## feed bad input to all that reads other people's bytes: SECONDS=600 for all together
	PYTHONPATH=tests:.venv/fuzz $(BIN)/python -m fuzz.run --seconds $(SECONDS) $(ARGS)

gpu: $(READY) ## hold gpuloom against the driver and the cards of this machine
	@$(BIN)/gpuloom selftest $(ARGS)

docs: $(READY) ## the pages of docs as a site, in build/site
	$(BIN)/mkdocs build --strict

controlplane: $(READY) ## build the Kubernetes that tests run against, once (minutes)
	PYTHONPATH=tests $(BIN)/python -m harness.binaries

ci: $(READY) check controlplane ## everything, nothing skipped; CI=true makes a skip a failure
	$(TOGETHER) -m "not alone" $(ARGS) $(OR_NONE)
	$(BIN)/pytest -m alone $(ARGS) $(OR_NONE)
	$(BIN)/gpuloom demo --once
	$(BIN)/gpuloom bench --nodes 1000 5000

.venv/audit/ready: locks/audit.lock $(READY)
	@$(BIN)/uv venv --quiet --clear .venv/audit
	@$(BIN)/uv pip sync --quiet --require-hashes --python .venv/audit/bin/python locks/audit.lock || \
		{ echo "audit: its tools cannot be installed: this machine reaches no index of packages" >&2; exit 3; }
	@touch $@

audit: .venv/audit/ready ## ask about known vulnerabilities of all that the locks name, where the network can be asked
	@$(BIN)/python tools/supply/audit.py .venv/audit/bin/pip-audit requirements.lock locks/*.lock

MADE := build/supply

# The environment is that of the images.
sbom: .venv/audit/ready ## what the images are made of (CycloneDX) and how that came about (SLSA), in build/supply
	@rm -rf $(MADE) && mkdir -p $(MADE)
	@$(BIN)/python -m hatchling build -t wheel -d $(MADE) > /dev/null 2>&1
	@$(BIN)/python images/runtime_requirements.py requirements.lock > $(MADE)/runtime.lock
	@$(BIN)/uv venv --quiet $(MADE)/environment
	@$(BIN)/uv pip install --quiet --require-hashes --only-binary :all: --python $(MADE)/environment -r $(MADE)/runtime.lock
	@$(BIN)/uv pip install --quiet --offline --no-deps --no-build-isolation --python $(MADE)/environment $(MADE)/*.whl
	@.venv/audit/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
		--output-file $(MADE)/sbom.cdx.json $(MADE)/environment/bin/python
	@rm -r $(MADE)/environment
	$(BIN)/python tools/supply/provenance.py $(MADE)/*.whl $(MADE)/sbom.cdx.json $(ARGS) > $(MADE)/provenance.json

publish: $(READY) ## build images, chart and wheel, and push them to a registry of your own: ARGS="--registry ... --base ..."
	@$(BIN)/python tools/publish.py $(ARGS)

COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11

# The tools' locks take the versions that they share with requirements.lock from there.
lock: $(READY) ## resolve the dependencies anew: UPGRADE= keeps the versions that are there
	$(COMPILE) $(UPGRADE) --group dev pyproject.toml --output-file requirements.lock
	for group in uv build audit fuzz; do \
		$(COMPILE) $(UPGRADE) --group $$group --constraints requirements.lock --output-file locks/$$group.lock || exit 1; \
	done

clean: ## remove the environment and caches of this checkout
	rm -rf .venv build/site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
