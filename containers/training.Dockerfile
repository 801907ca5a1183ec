# An example of an image under test: the CUDA tests that the numba wheel ships, on simulated GPUs. Yours starts from the
# image that you train with. It needs Python 3.10 or newer, pytest 7.4 or newer, and the checkout; nothing of shardlib.
#
# With the settings `workdir = "/workspace"`, `run_args = ["--simulated-gpus"]` and the pytest_args of examples/numba/demo.py.
ARG PYTHON_IMAGE=python:3.12-slim-bookworm

FROM ${PYTHON_IMAGE}
RUN pip install --no-cache-dir pytest==9.2.0 numba==0.68.1 numpy==2.4.6
ENV NUMBA_ENABLE_CUDASIM=1
# The checkout last: what changes most often must not rebuild what changes least.
WORKDIR /workspace
COPY . .
