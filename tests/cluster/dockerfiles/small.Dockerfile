# What the small suites start from: pytest and nothing else.
ARG PYTHON_IMAGE
FROM ${PYTHON_IMAGE}
RUN python3 -m venv /venv && /venv/bin/pip install pytest==9.2.0
ENV PATH=/venv/bin:/usr/local/bin:/usr/bin:/bin
