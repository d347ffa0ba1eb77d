# Two stages:
#   build   makes a virtual environment from uv.lock: the dependencies first, in a layer that only
#           changes with the lock file, then gang-extender itself, not editable.
#   final   that environment on the same base image, without uv, pip's cache or the sources. No
#           shell step runs here and nothing is written at run time: it works on a read-only root.
#
#   docker build -t gang-extender:0.1.0 .
#   docker build -t gang-extender-page:0.1.0 --build-arg EXTRA=page .    for the live page
#
# VERSION is the newest release: git, which would know, is not in the context. Say another one where
# you build another commit: --build-arg VERSION=0.1.0.post1.dev7.
#
# Both stages must have the same base: the environment points to its Python. Where the builds must
# be repeatable to the byte, pin the digest of your mirror's copy behind the tag.

ARG VERSION=0.1.0
ARG EXTRA=otel

FROM python:3.13.9-slim-bookworm AS build
ENV UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_PYTHON_DOWNLOADS=never \
    UV_PYTHON_PREFERENCE=only-system
RUN pip install --no-cache-dir --root-user-action=ignore uv==0.13.8
WORKDIR /app
ARG EXTRA
COPY pyproject.toml uv.lock README.md LICENSE ./
# The extra otel sends traces where the settings ask for it; nothing of it is imported otherwise.
RUN uv sync --frozen --no-dev --extra otel --extra $EXTRA --no-install-project
COPY extender ./extender
COPY gang_tools ./gang_tools
COPY manifests/crds ./manifests/crds
COPY manifests/policies ./manifests/policies
COPY manifests/rbac ./manifests/rbac
COPY manifests/static-pod ./manifests/static-pod
COPY scheduler-config ./scheduler-config
ARG VERSION
RUN SETUPTOOLS_SCM_PRETEND_VERSION_FOR_GANG_EXTENDER=$VERSION uv sync --frozen --no-dev --extra otel --extra $EXTRA --no-editable

FROM python:3.13.9-slim-bookworm
ARG VERSION
LABEL org.opencontainers.image.title="gang-extender" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.licenses="Apache-2.0"
# Libraries look for a home folder when they are loaded, and this user has none of its own.
ENV HOME=/ \
    PATH=/app/.venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /app/.venv /app/.venv
# A number, so that the kubelet can tell that it is not root (runAsNonRoot).
USER 65532:65532
EXPOSE 8888
ENTRYPOINT ["gang-extender"]
CMD ["serve"]
