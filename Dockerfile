# `docker build -t tollgate .` makes the gateway's image. Nothing here needs BuildKit.

# By digest: a tag may lead to other bytes tomorrow. The version is that of package.json, which the tests run on. For another
# one ask `docker buildx imagetools inspect node:VERSION-slim --format '{{.Manifest.Digest}}'`.
ARG NODE_IMAGE=node:26.10.0-slim@sha256:ec7758ee051e457b468b32bde57b0879010b325bb9862718e9615225ce4aaae1

# The gateway and all its packages as one bundle, and its SBOM.
FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY LICENSE ./
COPY bin ./bin
COPY src ./src
COPY tools ./tools
RUN npm run -s build:program && npm run -s sbom >dist/program/sbom.cdx.json

FROM ${NODE_IMAGE} AS runtime
WORKDIR /app
# All code belongs to root and runs as another user: a gateway that is broken into cannot change itself.
# What is in it, for scanners, is in sbom.cdx.json: CycloneDX.
COPY --from=build /app/dist/program ./
COPY config/gateway.yaml plans.yaml /etc/tollgate/
COPY config/compose/healthy.sh /usr/local/bin/healthy
ENV NODE_ENV=production \
    NODE_COMPILE_CACHE=/usr/local/lib/tollgate-cache \
    HOST=0.0.0.0 \
    ADMIN_HOST=0.0.0.0 \
    TOLLGATE_CONFIG=/etc/tollgate/gateway.yaml \
    TOLLGATE_PLANS=/etc/tollgate/plans.yaml \
    TOLLGATE_DATA=/data
# /data is where the embedded store and the pet service keep their data: mount a volume there.
# The overview loads every command, and the library the gateway: they are compiled once, here, and not at each start. The cache is kept for
# the user who made it, and then it is root's as well. The code that V8 writes depends on its random numbers: with a seed it is
# the same in every build. The seed is not kept: a start has random numbers of its own. Node.js lets its owner alone read it.
RUN ln -s /app/bin/tollgate /usr/local/bin/tollgate \
 && install -d -m 700 -o node -g node /data \
 && install -d -o node -g node "$NODE_COMPILE_CACHE" \
 && setpriv --reuid=node --regid=node --init-groups node --random-seed=1 /app/bin/tollgate.js --help >/dev/null \
 && setpriv --reuid=node --regid=node --init-groups node --random-seed=1 /app/src/library.js \
 && chown -R root:root "$NODE_COMPILE_CACHE" \
 && chmod -R a+rX "$NODE_COMPILE_CACHE"
# By number, so that Kubernetes can see that it is not root.
USER 1000:1000
WORKDIR /data
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
# Alive, not ready: an orchestrator that replaces what is unhealthy must not do so because Redis is away.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 CMD healthy "${ADMIN_PORT:-9090}" /livez
ENTRYPOINT ["tollgate"]
CMD ["serve"]

# What the sources need, from which the load test runs.
FROM ${NODE_IMAGE} AS load-packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --omit=optional --ignore-scripts

# The load test, for the compose profile `load`. Before the gateway, so that that is what a plain build makes.
FROM runtime AS load
WORKDIR /app
COPY --from=load-packages /app/node_modules ./node_modules
# The HTTP client of the load test. It has no dependencies of its own.
COPY --from=build /app/node_modules/undici ./node_modules/undici
COPY src ./src
COPY test ./test
COPY tools ./tools
USER root
RUN install -d -o node -g node /report
USER 1000:1000
WORKDIR /report
ENTRYPOINT ["node", "--disable-sigusr1", "/app/tools/load/main.ts"]
CMD []

FROM runtime AS gateway
ARG VERSION=unreleased
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Tollgate" \
      org.opencontainers.image.description="API gateway that holds every caller to the quotas of its plan" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.base.name="docker.io/library/node:26.10.0-slim"
