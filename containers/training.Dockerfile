# An example of an image under test: the CUDA tests that the numba wheel ships, on simulated GPUs. Yours starts from the
# image that you train with. It needs Python 3.10 or newer, pytest 7.4 or newer, and the checkout; nothing of shardlib.
#
# With the settings `workdir = "/workspace"`, `run_args = ["--simulated-gpus"]` and the pytest_args of examples/numba/demo.py.
# It stays root: the capability SYS_NICE, with which workers bind to their GPU's memory, is of no use to another user.
ARG PYTHON_IMAGE=python:3.12-slim-bookworm

# What changes least. The versions are those of the extra `demo` in pyproject.toml.
FROM ${PYTHON_IMAGE} AS environment
RUN python3 -m venv /venv && /venv/bin/pip install --no-cache-dir pytest==9.2.0 numba==0.68.1 numpy==2.4.6
ENV PATH=/venv/bin:$PATH NUMBA_ENABLE_CUDASIM=1

# The checkout, which changes with every commit.
FROM environment
WORKDIR /workspace
COPY . .
