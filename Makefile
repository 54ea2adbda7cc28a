# A thin menu; every line can be typed by hand.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null)
LDFLAGS  = -s -w -buildid= -X main.version=$(VERSION) -X main.commit=$(COMMIT)

.DEFAULT_GOAL := help
.PHONY: help demo build test race lint ci env up image

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## show a paid order being fulfilled once, whatever goes wrong
	go run ./cmd/paidonce demo

build: ## bin/paidonce: static, and the same byte for byte wherever it is built
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "$(LDFLAGS)" -o bin/paidonce ./cmd/paidonce

test: ## the tests
	go test ./...

race: ## the tests, with the race detector
	go test -race ./...

lint: ## the linters that CI runs
	golangci-lint run

ci: ## everything that CI runs
	.ci/run

env: ## .env with fresh secrets, for docker compose and the simulated Stripe
	@test ! -e .env || { echo ".env is there already; it is left alone"; exit 1; }
	@key=$$(go run ./cmd/paidonce license keygen) && secret=$$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n') && hook=$$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') && \
	umask 077 && printf '%s\n' "APP_SECRET=$$secret" "$$key" \
	  "STRIPE_SECRET_KEY=sk_test_sim" "STRIPE_WEBHOOK_SECRETS=whsec_$$hook" "STRIPE_API_BASE=http://sim:12111" > .env
	@echo "wrote .env"

up: ## docker compose: Postgres, mails, paidonce and a simulated Stripe
	docker compose --profile sim up --build

image: ## a container image named paidonce
	docker build -t paidonce --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) .
