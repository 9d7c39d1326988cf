# The commands of this repository. `make` alone lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

.PHONY: help
help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## the whole system in one process: embedded Redis, three workers, a strict bank
	go run ./cmd/tundish demo

.PHONY: test
test: ## all tests with the race detector, as CI runs them
	@.ci/test

.PHONY: test-unit
test-unit: ## tests that need nothing installed (miniredis)
	@.ci/gotest unit

.PHONY: test-redis
test-redis: ## tests on a real redis-server, one server for each package
	@.ci/need redis-server redis-server
	@.ci/gotest redis

.PHONY: test-process
test-process: ## tests that start and kill the real programs
	@.ci/need redis-server redis-server
	@.ci/need faketime faketime || echo 'tests that set the clock of Redis will be skipped' >&2
	@.ci/gotest processes
	@.ci/gotest chaos

.PHONY: soak
soak: ## a minute in which a random worker is killed each second
	@.ci/need redis-server redis-server
	TUNDISH_SOAK=1 go test -race -count=1 -timeout 10m -run 'AtRandom' -v ./internal/e2e

.PHONY: lint
lint: ## gofmt, tidy go.mod, go vet, golangci-lint (built into .tools/), shell syntax
	@.ci/lint

.PHONY: bench
bench: ## measure everything and write docs/benchmarks.md anew (some 15 minutes alone; BRIEF=1 is quick)
	@.ci/need redis-server redis-server
	@.ci/bench $(if $(BRIEF),brief)

.PHONY: bench-rate
bench-rate: ## measure the promised rates (BenchmarkRate…)
	@.ci/need redis-server redis-server
	@.ci/gobench -bench Rate -benchtime 3x -timeout 15m

.PHONY: bench-once
bench-once: ## run each benchmark once, so that none rots
	@.ci/need redis-server redis-server
	@.ci/gobench -bench . -benchtime 1x -timeout 2m

.PHONY: render
render: ## render the Kubernetes manifests to bin/kubernetes.yaml
	@mkdir -p bin
	kubectl kustomize deploy/kubernetes > bin/kubernetes.yaml
	@echo "bin/kubernetes.yaml: $$(grep -c '^kind:' bin/kubernetes.yaml) objects"

.PHONY: build
build: ## build the programs into bin/
	go build -trimpath -o bin/ ./cmd/...

.PHONY: clean
clean: ## remove bin/ and .tools/
	rm -rf bin .tools
