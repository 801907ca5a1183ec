# The stand-in for Kaniko, in the place where Kaniko's image has its own.
ARG PYTHON_IMAGE
FROM ${PYTHON_IMAGE}
COPY kaniko /kaniko
# The marker by which the stand-in knows that the file system is its own.
RUN touch /kaniko/.in-image
