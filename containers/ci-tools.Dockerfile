# The CI tools image: plans, judges, tags; runs no code of a pull request. Build from the repository's root, with a base by
# digest (there is no default, so that nobody builds on a tag that moves):
#
#   docker build -f containers/ci-tools.Dockerfile \
#     --build-arg PYTHON_IMAGE=python:3.12-slim-bookworm@sha256:... -t REGISTRY/ci/shardlib-tools .
#
# Kaniko builds it as well. The base needs python3 (3.11 or newer, for the steps call `python3 -P`) with venv, and apt.
ARG PYTHON_IMAGE

FROM ${PYTHON_IMAGE} AS build
# Python dates the wheel by it and writes bytecode that is valid by content: so equal sources give equal files.
ARG SOURCE_DATE_EPOCH=315532800
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY shardlib shardlib
COPY tools tools
# What the steps run, without pip, and the one file that init containers bring to the image under test.
RUN python3 -m venv /venv \
    && /venv/bin/pip install --no-cache-dir '.[weights,gate]' \
    && /venv/bin/pip uninstall --quiet --yes pip setuptools \
    && /venv/bin/python3 tools/build_zipapp.py /out/shardlib.pyz \
    && find /venv /out -exec touch --no-dereference --date=@$SOURCE_DATE_EPOCH {} +

FROM ${PYTHON_IMAGE}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /venv /venv
COPY --from=build /out/shardlib.pyz /opt/shardlib/shardlib.pyz
ENV PATH=/venv/bin:$PATH
# Nobody in particular: /mnt/ci must be writable for this uid (setting tools_user).
USER 65532:65532
WORKDIR /
CMD ["python3", "-P", "-m", "shardlib", "--help"]
