# Everything from nothing: Python 3.10-3.13 and make are all that a machine needs.
PYTHON ?= python3
.DELETE_ON_ERROR:
.PHONY: help test demo bench setup clean

help:
	@echo 'make test   set up .venv and run every check'
	@echo 'make demo   set up .demo and shard the CUDA tests of the numba wheel over 12 x 8 simulated GPUs'
	@echo 'make bench  set up .venv and compare the packing with its peers'
	@echo 'make setup  set up .venv, for working on the code'
	@echo 'PYTHON=...  the interpreter to use (now: $(PYTHON))'

test: setup
	.venv/bin/nox

setup: .venv/ready

demo: .demo/ready
	.demo/bin/python examples/numba/demo.py

bench: .venv/ready
	.venv/bin/python -m benchmarks packing

# Two environments: the demo wants one wheel and no tools, and neither may change the other's versions.
.venv/ready: pyproject.toml .ci/venv
	.ci/venv '$(PYTHON)' .venv dev

.demo/ready: pyproject.toml .ci/venv
	.ci/venv '$(PYTHON)' .demo demo

clean:
	rm -rf .venv .demo .nox build dist
