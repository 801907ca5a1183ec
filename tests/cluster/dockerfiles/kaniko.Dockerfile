# The stand-in for Kaniko, in the place where Kaniko's image has its own.
ARG PYTHON_IMAGE
FROM ${PYTHON_IMAGE}
RUN apt-get update && apt-get install --yes --no-install-recommends git
COPY tests/cluster/kaniko /kaniko
