# syntax=docker/dockerfile:1
# paidonce in an image of its own binary, certificates and time zones: no shell, no root.
#
#   docker build -t paidonce --build-arg VERSION=v1.0.0 --build-arg COMMIT=$(git rev-parse --short HEAD) .
#
# The commands are those of "make build", so that the binary is the same byte for byte.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=devel
ARG COMMIT=
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.version=$VERSION -X main.commit=$COMMIT" -o bin/paidonce ./cmd/paidonce
RUN mkdir -p bin/data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /usr/local/go/lib/time/zoneinfo.zip /zoneinfo.zip
COPY --from=build /src/bin/paidonce /paidonce
# For what is to be written: the state of a simulated Stripe, mails as files.
COPY --from=build --chown=65532:65532 /src/bin/data /data
ENV ZONEINFO=/zoneinfo.zip ADDR=:8080
USER 65532:65532
WORKDIR /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s --retries=3 CMD ["/paidonce", "health"]
ENTRYPOINT ["/paidonce"]
CMD ["serve"]
