# Three commands do everything on a machine that has make and a Python from 3.10 to 3.13:
#   make run     installs axonrl into .venv and trains
#   make test    installs what the tests need, then lint, types and every test that needs nothing else
#                make test-all adds docs, the wheel, and the tests with a server, a browser or Ray
#                make test-lowest runs the same tests with the lowest versions that setup.cfg allows
#   make bench   installs the peers into .venv-bench and .venv-bench-*, then measures axonrl against them
# What is installed depends on setup.cfg and pyproject.toml alone, so a second call starts at once.

EXPERIMENT ?= experiments/dqn_cartpole.yml
# A folder of its own for every run, runs/<name>, runs/<name>-2 and so on, unless one is given.
MODEL_DIR ?=
# Anything else for `axonrl run`, such as ARGS="-P learning_rate=1e-3", or for the benchmarks, such as ARGS=--quick.
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadfile
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
PYTHONS := $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python3.10 python)
SUITS := import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))

# Peers that change each other have an environment each; what is in it is in benchmarks/requirements*.txt.
PEERS := .venv-bench .venv-bench-envpool .venv-bench-rejax .venv-bench-rltools .venv-bench-tianshou .venv-bench-torchrl
REQUIREMENTS = $(patsubst .venv-bench%,benchmarks/requirements%.txt,$(VENV))

DOCKER := $(CURDIR)/build/docker
# What the wheel is tried with, where it is installed: every Python that axonrl runs on.
TRIED ?= python3.10 python3.11 python3.12 python3.13

# The markers of the tests that `make test` leaves out; pyproject.toml says why of each.
MARKED := server or browser or ray or learning or docs or wheel or soak or benchmark

.PHONY: help run test test-all test-more test-lowest test-server bench bench-distributed bench-resume soak docs lint types format docker-check wheel wheel-check clean

help:
	@echo "make run      install, then train $(EXPERIMENT)"
	@echo "              EXPERIMENT=path.yml trains another; ARGS=\"...\" is handed to axonrl run"
	@echo "              MODEL_DIR=runs/name ARGS=--resume continues a run that was stopped"
	@echo "make test     install, then lint, types and the tests that need no server, browser or cluster"
	@echo "make test-more  documentation, the wheel and the other tests"
	@echo "make test-all make test, then make test-more"
	@echo "make test-lowest  install the lowest versions that setup.cfg allows into .venv-lowest, then the tests of make test"
	@echo "make bench    install, then measure axonrl and its peers in turn, and write benchmarks/RESULTS.md"
	@echo "              ARGS=--quick shows in a few minutes that it works; ARGS=\"--only dqn act\" measures a part"
	@echo "make bench-distributed install RLlib, measure training by several processes against it, and write docs/distributed.md"
	@echo "make bench-resume kill runs of axonrl and its peers, resume them, and write the table of docs/resume.md"
	@echo "make soak     kill parts of trainings on Ray, and of a service, for two hours; ARGS=\"--minutes 1 --drivers 2\" is short"
	@echo "make lint     ruff, rules and format; the Dockerfile and the configuration of CI"
	@echo "make types    mypy, strict, and pyright on a program of a user"
	@echo "make docs     build the documentation: .build/site/index.html; a broken link or an unknown name is an error"
	@echo "make format   let ruff mend what it can"
	@echo "make test-server  install the Polyaxon server and the original client that tests use, as make test-all does"
	@echo "make docker-check run what the Dockerfile runs, in a new virtual environment; takes some minutes"
	@echo "make wheel    build the wheel and the source distribution into dist/"
	@echo "make wheel-check  build them, then install and try the wheel with $(TRIED); takes some minutes"
	@echo "make clean    remove .venv, .venv-bench*, .venv-lowest, .venv-polyaxon, .venv-agents-bar and what tools left behind; runs/ stays"

run: $(VENV)/installed-run
	$(BIN)/axonrl run "$(EXPERIMENT)" $(if $(MODEL_DIR),--model-dir "$(MODEL_DIR)") $(ARGS)

# Three at a time, also on two processors: some tests wait for servers. Each takes up to 3 GB.
test: lint types
	$(PYTEST) -m "not ($(MARKED))"

test-all: test test-more

# Whoever is done takes tests from the others: a file of these may take minutes.
test-more: test-server
	@$(MAKE) --no-print-directory -j2 docs wheel
	$(PYTEST) --dist worksteal -m "$(MARKED)"

# Linters judge otherwise from version to version, and so do types: NumPy's own are in it. Both are for the newest.
test-lowest:
	@$(MAKE) --no-print-directory VENV=.venv-lowest .venv-lowest/installed-lowest
	@$(MAKE) --no-print-directory VENV=.venv-lowest --old-file=lint --old-file=types test

# The server (AGPL) is a tool of the tests: it has an environment of its own, and nothing of axonrl imports it. So has the
# published client of the service whose interface ours follows.
test-server:
	@$(MAKE) --no-print-directory VENV=.venv-polyaxon .venv-polyaxon/installed-server
	@$(MAKE) --no-print-directory VENV=.venv-agents-bar .venv-agents-bar/installed-client

# The peers have environments of their own, as their users have them: made by the same rules, under other names. What
# does not install is skipped, and said again in the results.
bench: $(VENV)/installed-run
	@$(PIP) --editable ".[atari,envpool,mujoco,serving]" "fastapi>=0.132"  # FastAPI is the yardstick of the service
	@$(INSTALL_PEERS)
	$(BIN)/python -m axonrl.benchmarks.run --peers . $(ARGS)

bench-distributed: PEERS := .venv-bench-rllib
bench-distributed: $(VENV)/installed-run
	@$(PIP) --editable ".[ray]"
	@$(INSTALL_PEERS)
	$(BIN)/python -m axonrl.benchmarks.distributed --peers . $(ARGS)

bench-resume: PEERS := .venv-bench .venv-bench-torchrl
bench-resume: $(VENV)/installed-run
	@$(INSTALL_PEERS)
	$(BIN)/python -m axonrl.benchmarks.resume --peers . $(ARGS)

soak: $(VENV)/installed-test
	$(BIN)/python -m axonrl.benchmarks.soak $(ARGS)

define INSTALL_PEERS
for venv in $(PEERS); do \
    $(MAKE) --no-print-directory VENV=$$venv $$venv/installed-bench || \
        printf '%s\n' "" "*** $$venv could not be installed: its peers are skipped. See above. ***" "" >&2; \
done
endef

lint: $(VENV)/installed-test
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/hadolint Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/pre-commit validate-config

# Pyright sees what an editor does: a program of a user, through the editable install.
types: $(VENV)/installed-test
	$(BIN)/python -m mypy
	$(BIN)/python -m pyright

docs: $(VENV)/installed-test
	$(BIN)/python -m axonrl.docs.build

format: $(VENV)/installed-test
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

# No engine is needed: the Dockerfile's own commands, but for the user, with other folders and a virtual environment.
docker-check: $(VENV)/made-in
	rm -rf $(DOCKER) && mkdir -p $(DOCKER)/src
	git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t $(DOCKER)/src
	$(BIN)/python -m venv $(DOCKER)/venv
	sed -n 's/^RUN //p' Dockerfile | grep -v useradd | sed 's#/src\b#$(DOCKER)/src#g; s#/wheels\b#$(DOCKER)/wheels#g' \
	    | PATH="$(DOCKER)/venv/bin:$$PATH" bash -eux
	cd $(DOCKER) && venv/bin/axonrl run dqn_cartpole --set train.max_timesteps=1000 --set evaluate.episodes=1
	rm -rf $(DOCKER)

# The source distribution holds all that git does.
wheel: $(VENV)/installed-test
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/python -m twine check --strict dist/*
	@mkdir -p build && tar tzf dist/*.tar.gz | cut -d/ -f2- | sort >build/sdist
	@! git ls-files | sort | comm -23 - build/sdist | grep . || { echo "not in the source distribution" >&2; exit 1; }

wheel-check: wheel
	.ci/wheel-check dist/*.whl $(TRIED)

clean:
	rm -rf $(VENV) .venv-bench .venv-bench-* .venv-lowest .venv-polyaxon .venv-agents-bar build dist axonrl.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/installed-run: $(VENV)/made-in setup.cfg pyproject.toml
	@echo "Installing axonrl and what it needs into $(VENV); the first time this takes some minutes."
	@$(PIP) --editable ".[box2d,minatar]"
	@touch $@

$(VENV)/installed-test: $(VENV)/made-in setup.cfg pyproject.toml
	@echo "Installing axonrl and what its tests need into $(VENV); the first time this takes some minutes."
	@$(PIP) --editable ".[test]"
	@touch $@ $(VENV)/installed-run

# Of what those require in turn, the newest.
$(VENV)/installed-lowest: $(VENV)/made-in setup.cfg pyproject.toml
	@echo "Installing the lowest versions that axonrl and its tests allow into $(VENV); the first time this takes some minutes."
	@$(PIP) uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --upgrade --resolution lowest-direct --editable ".[test]"
	@touch $@

# The benchmarks are modules of axonrl, which needs nothing else to be imported: there it comes without TensorFlow.
# What it took at first, in seconds, is kept for the results.
$(VENV)/installed-bench: $(VENV)/made-in setup.cfg $(REQUIREMENTS)
	@echo "Installing peers of the benchmarks into $(VENV); the first time this takes some minutes."
	@rm -f $@
	@began=$$(date +%s); \
	$(PIP) --requirement $(REQUIREMENTS) && $(PIP) --no-deps --editable . && \
	{ [ -e $(VENV)/seconds ] || echo $$(($$(date +%s) - began)) >$(VENV)/seconds; }
	@touch $@

$(VENV)/installed-server: $(VENV)/made-in tests/requirements-server.txt
	@echo "Installing the Polyaxon server of the tests into $(VENV); the first time this takes some minutes."
	@$(PIP) --requirement tests/requirements-server.txt
	@touch $@

$(VENV)/installed-client: $(VENV)/made-in tests/requirements-agents-bar.txt
	@echo "Installing the original client of the tests into $(VENV)."
	@$(PIP) --requirement tests/requirements-agents-bar.txt
	@touch $@

# A virtual environment holds absolute paths: one that was copied or moved with its folder, or whose Python is missing,
# is created again.
ifneq ($(CURDIR),$(shell $(BIN)/python -c "" 2>/dev/null && cat $(VENV)/made-in))
.PHONY: $(VENV)/made-in
endif

$(VENV)/made-in:
	@for python in $(PYTHONS) ""; do \
	    if "$$python" -c "$(SUITS)" 2>/dev/null; then break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	    echo "axonrl needs Python 3.10, 3.11, 3.12 or 3.13 with its venv module; tried: $(PYTHONS)." >&2; \
	    echo "Install one (on Debian and Ubuntu: apt install python3 python3-venv)," >&2; \
	    echo "or name one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
	    exit 1; \
	fi; \
	echo "Making $(VENV) with $$("$$python" --version)"; \
	"$$python" -m venv --clear $(VENV)
	@$(PIP) --upgrade pip
	@pwd -P > $@
