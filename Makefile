# Everything from nothing: Python 3.10-3.13 and make are all that a machine needs.
PYTHON ?= python3
.DELETE_ON_ERROR:
.PHONY: help test demo bench setup clean cluster cluster-test cluster-chaos cluster-down

help:
	@echo 'make test   set up .venv and run every check'
	@echo 'make demo   set up .demo and shard the CUDA tests of the numba wheel over 12 x 8 simulated GPUs'
	@echo 'make cluster-test   bring up a real Argo Workflows on this machine and run the whole chain there (needs root)'
	@echo 'make cluster-chaos  the rest of the unhappy cases there; make cluster-down ends it'
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

# Kubernetes and Argo are built once (about 11 minutes of two idle cores) and stay up for the next time.
TESTBED := tests/cluster/testbed
CLUSTER_PYTEST := $(TESTBED)/run-in .venv/bin/python -m pytest tests/cluster
# Most of a run is waiting: several share the cores. What kills daemons or measures has the cluster for itself.
CLUSTER_WORKERS ?= 3

cluster: setup
	$(TESTBED)/build
	.venv/bin/python -m tests.cluster.images
	$(TESTBED)/up

cluster-test: cluster
	$(CLUSTER_PYTEST) -m 'cluster and not chaos and not alone' -n $(CLUSTER_WORKERS) --dist loadfile
	$(CLUSTER_PYTEST) -m 'cluster and not chaos and alone'

cluster-chaos: cluster
	$(CLUSTER_PYTEST) -m chaos -n $(CLUSTER_WORKERS)

cluster-down:
	$(TESTBED)/down

# Two environments: the demo wants one wheel and no tools, and neither may change the other's versions.
.venv/ready: pyproject.toml .ci/venv
	.ci/venv '$(PYTHON)' .venv dev

.demo/ready: pyproject.toml .ci/venv
	.ci/venv '$(PYTHON)' .demo demo

clean:
	rm -rf .venv .demo .nox build dist
