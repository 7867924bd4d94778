# Every target sets up what it needs: a machine with Python 3.11+ and Java 17+ is enough.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Three test processes, each with services of its own; a file's tests stay together and in order.
# While one waits, for a broker that dies or a role that changes, two others keep both cores busy.
AT_ONCE := --numprocesses 3 --dist loadfile --no-loadscope-reorder
AGAINST ?=
export PYSPARK_PYTHON := $(abspath $(BIN)/python)

.PHONY: setup build check browser test test-unit test-kill test-memory test-matrix test-stores \
  test-cluster demo bench docs format clean

setup: $(STAMP)  ## make .venv with the kafkeep command and the test tools

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "kafkeep needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	$(BIN)/python -m kafkeep.objects.compile_kernels
	@touch $@

build: $(STAMP)  ## the package to install elsewhere, as wheel and sdist, in dist/
	$(BIN)/python -m build --no-isolation --outdir dist .

check: $(STAMP)  ## lint, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(STAMP)
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

browser:  ## Chromium for the tests of the web console
	@command -v chromium >/dev/null || \
	  { test "$$(id -u)" = 0 && apt-get update -q && apt-get install -y -q chromium; } || \
	  { echo "Chromium cannot be installed here. Install it so that PATH has the command chromium:" \
	    "the tests of the web console need it."; exit 1; }

test: $(STAMP) browser  ## everything but the long suites
	$(BIN)/pytest -m "not slow" $(AT_ONCE) --durations=25

test-unit: $(STAMP)  ## pure and fast
	$(BIN)/pytest tests/unit tests/property tests/docs -m "not integration and not slow" -q

test-kill: $(STAMP)  ## kill -9 at random moments, many times; the seed is printed
	$(BIN)/pytest tests/integration/test_kill.py tests/integration/test_kill_restore.py \
	  tests/integration/test_kill_places.py tests/integration/test_sink_kill.py \
	  tests/integration/test_brokers.py tests/integration/test_group_moves.py \
	  tests/integration/test_check_runs.py \
	  tests/integration/test_dev.py::test_three_brokers_survive_the_loss_of_one \
	  tests/property/test_log_machine.py::TestLogMachineForLong \
	  tests/integration/test_connect_jobs.py::test_a_source_killed_at_every_place_doubles_and_loses_nothing \
	  tests/integration/test_compact_pair.py::test_a_pair_whose_objects_lie_in_numbered_folders_continues_in_the_documented_ones \
	  -m "slow or not slow" -s --timeout 3000

test-memory: $(STAMP)  ## the memory of workers that write many open or large files
	$(BIN)/pytest tests/integration/test_sink_memory.py -m "slow or not slow"

test-matrix: $(STAMP)  ## the core suite on releases of Kafka, Spark, Java and Python; MATRIX="kafka-2.8.2 spark-3.5" selects
	$(BIN)/python -m tests.support.matrix $(MATRIX)

test-stores: $(STAMP)  ## MinIO and the emulators of Google and Azure; builds them once with Go and npm
	$(BIN)/pytest tests/contract/test_store.py tests/integration/test_cloud_stores.py -m stores $(AT_ONCE)

test-cluster: $(STAMP)  ## a standalone Spark cluster: submit, dynamic allocation, a shipped environment
	$(BIN)/pytest tests/integration/test_spark_cluster.py tests/integration/test_ship_environment.py \
	  tests/integration/test_task_twice.py -m "slow or not slow" -s

demo: $(STAMP)  ## the whole story on real services
	$(BIN)/kafkeep demo

bench: $(STAMP)  ## speed beside the floor, in one run; AGAINST=REVISION compares with that version instead
	$(BIN)/python -m bench $(if $(AGAINST),--against $(AGAINST))

docs: $(STAMP)  ## the documentation site, in site/; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) .matrix site .pytest_cache .mypy_cache .ruff_cache .hypothesis
