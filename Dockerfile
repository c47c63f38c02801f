# The image that submissions run in unless their experiment names another. VERSION is what axonrl --version prints:
#   docker build --tag axonrl:VERSION .
# An image that has models of your own besides begins with FROM axonrl:VERSION.
FROM python:3.11-slim AS build
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

FROM python:3.11-slim
COPY --from=build /wheels /wheels
# hadolint ignore=DL3013 # the one package that is named is the wheel itself
RUN wheel=$(echo /wheels/*.whl) && pip install --no-cache-dir "${wheel}[atari,box2d,minatar,mujoco,video]" && pip uninstall --yes tensorflow && pip install --no-cache-dir --no-deps "tensorflow-cpu==2.21.*"
RUN useradd --create-home --home-dir /axonrl --uid 1000 axonrl
USER 1000
WORKDIR /axonrl
# Lines of the log arrive when they are written.
ENV PYTHONUNBUFFERED=1
CMD ["axonrl", "--help"]
