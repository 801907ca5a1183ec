# The CI tools image: plans, judges, tags; runs no code of a pull request. Build from the repository's root, with a base by
# digest (there is no default, so that nobody builds on a tag that moves):
#
#   docker build -f containers/ci-tools.Dockerfile \
#     --build-arg PYTHON_IMAGE=python:3.12-slim-bookworm@sha256:... -t REGISTRY/ci/shardlib-tools .
#
# Python 3.11 or newer: the steps call `python3 -P`.
ARG PYTHON_IMAGE

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY shardlib shardlib
COPY tools tools
# The wheel for this image, and the one file that init containers bring to the image under test.
RUN python3 tools/build_zipapp.py /out/shardlib.pyz && pip wheel --no-cache-dir --no-deps --wheel-dir /out .

FROM ${PYTHON_IMAGE}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=build,source=/out,target=/wheels \
    pip install --no-cache-dir "$(ls /wheels/*.whl)[weights]"
COPY --from=build /out/shardlib.pyz /opt/shardlib/shardlib.pyz
# Nobody in particular: /mnt/ci must be writable for this uid (setting tools_user).
USER 65532:65532
WORKDIR /
CMD ["python3", "-P", "-m", "shardlib", "--help"]
