# Two images, from the package registry alone:
#
#   docker build --target base -t admeasure .            the command line: files in, releases out
#   docker build --target full -t admeasure:full .       and gradients, frames, solvers, page, databases
#
#   docker run --rm -v "$PWD:/work" --user "$(id -u):$(id -g)" admeasure run release.toml
#
# Spark is not in them, since it needs Java: install admeasure[spark] where Spark runs.

FROM python:3.11-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim AS base
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY --from=build /wheels /wheels
COPY constraints.txt /wheels/
RUN python -m pip install --no-cache-dir -c /wheels/constraints.txt /wheels/admeasure-*.whl
RUN useradd --create-home --uid 10001 steward
USER steward
WORKDIR /work
ENTRYPOINT ["admeasure"]
CMD ["--help"]

FROM base AS full
USER root
# The wheel by its path: a package of the same name in the registry is never looked for.
RUN python -m pip install --no-cache-dir -c /wheels/constraints.txt \
    "admeasure[gradient,frames,mip,ui,warehouse,learn] @ file://$(echo /wheels/admeasure-*.whl)"
USER steward
