# make image
# docker run --rm plumbline --help

# `make image` names it by the digest that it has at this moment. To build upon the same one for good,
# put that here: python:TAG@sha256:...
ARG BASE=python:3.13-slim-trixie

FROM ${BASE} AS build
ARG BASE
WORKDIR /src
COPY .ci/image .ci/sbom.py .ci/
COPY requirements.lock requirements-dev.lock ./
RUN .ci/image dependencies /opt/plumbline
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY docs docs
RUN .ci/image program /opt/plumbline

FROM ${BASE}
ARG BASE
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="plumbline" \
      org.opencontainers.image.description="A Vertical Pod Autoscaler for Kubernetes that can say why." \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE}"
# The standard library comes without byte code, and only root could write it later.
RUN python -m pip uninstall --quiet --yes --root-user-action=ignore pip \
 && python -m compileall -q -j 0 --invalidation-mode unchecked-hash "$(python -c 'import os; print(os.path.dirname(os.__file__))')" \
 && install -d -o 65534 -g 65534 /var/lib/plumbline
COPY --from=build /opt/plumbline /opt/plumbline
ARG COMMIT=
ENV PATH=/opt/plumbline/bin:$PATH \
    PLUMBLINE_COMMIT=${COMMIT} \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# Certificates made without a cluster go to ./certs, so the folder is writable.
WORKDIR /var/lib/plumbline
USER 65534:65534
EXPOSE 8000 8944
ENTRYPOINT ["plumbline"]
CMD ["--help"]
