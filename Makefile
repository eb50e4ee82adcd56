# Every target sets up what it needs, says what it does, and can be run twice.
.PHONY: screenshots setup demo serve env status join-command down compose-up compose-down test test-all test-quick test-hosts test-flaky test-newest test-airflows check hostile bench bench-search fuzz mlflow docs lock release
.DEFAULT_GOAL := setup
# The last line of the demo is its result, also where another make calls this one.
MAKEFLAGS += --no-print-directory
# Images set it, and then each process compiles all that it imports: twice the time for a start of the service, more for Airflow.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
PYTHON := $(VENV)/bin/python
UV := $(VENV)/bin/uv
UV_VERSION := $(shell sed -n 's/^uv==\([0-9.]*\).*/\1/p' .ci/uv.txt)
PYTEST_ARGUMENTS ?= -q

setup: $(VENV)/.installed

$(VENV)/.created:
	@.ci/make-venv $(VENV)
	@touch $@

$(VENV)/.uv-$(UV_VERSION): $(VENV)/.created
	@echo "installing uv $(UV_VERSION)" >&2
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --require-hashes -r .ci/uv.txt
	@touch $@

# Names, entry points and folders of what is installed as it lies here.
DISTRIBUTIONS := packaging/api packaging/service packaging/object-store packaging/airflow
DESCRIPTIONS := pyproject.toml $(DISTRIBUTIONS:%=%/pyproject.toml) training_api/version.py

$(VENV)/.installed: $(VENV)/.uv-$(UV_VERSION) requirements.txt $(DESCRIPTIONS)
	@echo "installing the locked requirements (about 1.5 GB; minutes on a fresh machine)" >&2
	@$(UV) pip install --quiet --python $(PYTHON) --require-hashes -r requirements.txt
	@$(UV) pip install --quiet --python $(PYTHON) --no-deps --no-build-isolation $(DISTRIBUTIONS:%=-e %) -e .
	@touch $@

demo serve env status join-command down compose-up compose-down: setup
	@$(PYTHON) -m local_stack $@

# The tests start their own registry, object store, database and services; the test bed is the engine and the base image.
# ONLY=docker, e2e, gcloud, browser, swarm, quick, integration, kill, hosts, wheels or compose: that part alone.
# KEEP=1: beside the results of the run before. PYTEST_ARGUMENTS: a path, -k, -m, and the like.
TEST_BED = $(PYTHON) -m local_stack test-bed $(PYTHON) -m tests.suite
# `make test` shows each promise once; `make test-all` also runs the further cases.
test test-all: setup
	@$(TEST_BED) $(if $(filter test-all,$@),--all) --only "$(ONLY)" $(if $(KEEP),--keep-results) $(PYTEST_ARGUMENTS)

# What needs neither Docker nor processes of Airflow.
test-quick: setup
	@$(PYTHON) -m tests.suite --quick $(PYTEST_ARGUMENTS)

# N runs of the suite, or of ONLY=..., the last LOADED of them beside a process that takes a core and the disk.
N ?= 5
LOADED ?= 2
test-flaky: setup
	@$(TEST_BED) --all --only "$(ONLY)" --times $(N) --loaded $(LOADED) $(PYTEST_ARGUMENTS)

# The unit tests of the Airflow side on the newest releases within its ranges, in a venv of its own: the lock may be older.
# Then the service's messages of Vertex AI beside those of the newest client, whatever the ranges of others allow.
NEWEST_VENV := .local/newest-venv
test-newest: setup
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) $(NEWEST_VENV)
	@$(UV) pip install --quiet --python $(NEWEST_VENV) --upgrade -e '.[dev]'
	@$(UV) pip list --python $(NEWEST_VENV) | grep -E '^apache-airflow(-providers-(docker|google))? '
	@$(NEWEST_VENV)/bin/python -m pytest -q tests/unit/container_training
	@$(UV) pip install --quiet --python $(NEWEST_VENV) --upgrade google-cloud-aiplatform
	@$(UV) pip list --python $(NEWEST_VENV) | grep '^google-cloud-aiplatform '
	@$(NEWEST_VENV)/bin/python -m pytest -q tests/unit/training_service/api/vertex_v1/test_messages.py

# What the project uses of Airflow beside its public API, on every release from 3.3 on and on a pre-release of the next one:
# a minute each. VERSIONS="3.3.0 3.4.0b2": these alone.
test-airflows: setup
	@$(PYTHON) .ci/test-airflows $(VERSIONS)

# The table of docs/access.md, made by a trainer that tries to leave its container; a test says when it is stale.
hostile: setup
	@HOSTILE_WRITES_DOCS=1 $(PYTHON) -m local_stack test-bed $(PYTHON) -m pytest -q tests/docker/test_hostile_trainer.py

# Airflow with two worker hosts: all example DAGs that the suite leaves out, and a host that dies in each phase.
test-hosts: setup
	@TWO_HOSTS=all $(PYTHON) -m local_stack test-bed $(PYTHON) -m pytest $(PYTEST_ARGUMENTS) tests/e2e/two_hosts

# The pictures of the README, made by tests that drive a real Airflow with real jobs.
screenshots: setup
	@SCREENSHOTS=.local/screenshots $(PYTHON) -m local_stack test-bed $(PYTHON) -m pytest -q tests/e2e/test_dashboard.py \
	  tests/e2e/test_job_page.py tests/e2e/test_fleet_page.py
	@mkdir -p docs/images
	@cp .local/screenshots/jobs-light.png docs/images/jobs.png
	@cp .local/screenshots/job-running.png docs/images/job.png

check: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(PYTHON) -m pytest -q tests/unit/test_layers.py tests/dags tests/unit/test_docs_links.py tests/unit/test_line_lengths.py \
	  tests/unit/test_operator_reference.py tests/unit/test_choice_of_backend.py tests/unit/test_engine_features.py \
	  tests/unit/test_mirrored_paths.py tests/unit/test_patience.py tests/unit/training_api/test_errors.py
	@$(PYTHON) .ci/audit

bench: setup
	@$(PYTHON) -m benchmarks

# Odd requests to service and object store; FUZZ_ARGUMENTS="--requests N --seed S" repeats an earlier run.
fuzz: setup
	@$(PYTHON) -m benchmarks.fuzz $(FUZZ_ARGUMENTS)

# Apart from bench: half an hour on two cores, and PyTorch (its build for CPUs) beside Optuna. In a venv of its own, so that
# no test ever finds them by accident. SEARCH_ARGUMENTS=--quick: minutes. Where PyTorch's own index cannot be reached:
# BENCH_INSTALL=PATH of its wheel for CPUs; the default wheel brings several GB of CUDA.
BENCH_INSTALL ?= --torch-backend cpu
bench-search: setup
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .local/bench-venv
	@$(UV) pip install --quiet --python .local/bench-venv -r requirements.txt
	@$(UV) pip install --quiet --python .local/bench-venv $(BENCH_INSTALL) -e '.[bench]'
	@.local/bench-venv/bin/python -m benchmarks search $(SEARCH_ARGUMENTS)

# MLflow's server, in the foreground, with SQLite. In a venv of its own: it contradicts what Airflow needs (docs/adr/0019).
MLFLOW_VENV := .local/mlflow-venv
MLFLOW_VERSION := 3.17.2
MLFLOW_PORT ?= 5500

$(MLFLOW_VENV)/.installed-$(MLFLOW_VERSION): $(VENV)/.uv-$(UV_VERSION)
	@echo "installing mlflow $(MLFLOW_VERSION) (620 MB)" >&2
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) $(MLFLOW_VENV)
	@$(UV) pip install --quiet --python $(MLFLOW_VENV) mlflow==$(MLFLOW_VERSION)
	@touch $@

mlflow: $(MLFLOW_VENV)/.installed-$(MLFLOW_VERSION)
	@mkdir -p .local/mlflow
	@$(MLFLOW_VENV)/bin/mlflow server --host 127.0.0.1 --port $(MLFLOW_PORT) --workers 1 \
	  --backend-store-uri sqlite:///$(CURDIR)/.local/mlflow/mlflow.db --artifacts-destination $(CURDIR)/.local/mlflow/artifacts

# What is made from the code; a test says when it is stale.
docs: setup
	@echo "writing docs/fidelity.md and docs/fidelity-vertex.md" >&2
	@$(PYTHON) -m docs.tools.fidelity
	@echo "writing docs/kill-table.md" >&2
	@$(PYTHON) -m tests.e2e.kill_table.page > docs/kill-table.md.new
	@mv docs/kill-table.md.new docs/kill-table.md
	@echo "writing the arguments in docs/reference" >&2
	@$(PYTHON) -m docs.tools.operator_reference
	@echo "writing the features by engine in docs/more-machines.md" >&2
	@$(PYTHON) -m docs.tools.engine_features
	@echo "writing the messages of Vertex AI" >&2
	@$(PYTHON) -m docs.tools.vertex_messages

# What images install, each with its requirements.in.
OF_IMAGES := $(wildcard docker/frameworks/*/requirements.in docker/trainers/*/requirements.in)
OURS := airflow-container-training container-training-api container-training-service container-training-object-store
OF_COMPOSE := $(wildcard docker/compose/*/requirements.in) docker/agent/requirements.in
COMPILE = $(UV) pip compile --quiet --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock"
lock: $(VENV)/.uv-$(UV_VERSION)
	$(COMPILE) pyproject.toml --python $(PYTHON) --extra dev -o requirements.txt \
	  $(OURS:%=--no-emit-package %)
	for file in $(OF_IMAGES:.in=); do $(COMPILE) $$file.in --python-version 3.11 -o $$file.txt || exit 1; done
	for file in $(OF_COMPOSE:.in=); do $(COMPILE) $$file.in --python-version 3.11 --constraint requirements.txt -o $$file.txt \
	  $(OURS:%=--no-emit-package %) || exit 1; done

# Source distributions, wheels made from them, and what PyPI would say of them.
release: setup
	@rm -rf dist
	@for folder in $(DISTRIBUTIONS); do $(PYTHON) -m build --no-isolation --outdir dist $$folder || exit 1; done
	@$(VENV)/bin/twine check --strict dist/*
