# Every target says in one line what it does; `make` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

BIN     := bin/sandbox
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# Compiled without what the linker's -s -w would throw away, and alike in all
# places, test/lab/mirror too: the build cache then has most of it.
COMPILE := -trimpath -gcflags=all=-dwarf=false
LDFLAGS := -s -w -X main.version=$(VERSION)
GO      := CGO_ENABLED=0 go
TOOL    := go tool -modfile=$(CURDIR)/tools/go.mod
MODULES := . test/gcp test/browser
FUZZTIME ?= 20s
# Their tests simulate thousands of runs, for which the race detector takes ten
# times as long: with it they simulate fewer.
ARITHMETIC := -e /internal/report$$ -e /internal/stats$$

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/sandbox for this machine, without cgo
	$(GO) build $(COMPILE) -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/sandbox

.PHONY: dist
dist: ## build dist/sandbox-linux-{amd64,arm64}: for a load host of another kind than this machine
	@for arch in amd64 arm64; do GOOS=linux GOARCH=$$arch $(GO) build $(COMPILE) -ldflags '$(LDFLAGS)' -o dist/sandbox-linux-$$arch ./cmd/sandbox || exit 1; done

.PHONY: demo
demo: build ## see the whole flow on this machine: up, bench, report, down (under two minutes)
	./scripts/demo.sh $(BIN)

.PHONY: test
test: ## run the tests (under five minutes)
	go test -timeout 20m ./...

.PHONY: test-remote
test-remote: ## run the tests of a bench on a load host, behind a real sshd (three minutes)
	go test -count=1 -timeout 20m -tags e2e ./internal/cli

.PHONY: test-browser
test-browser: ## open the golden reports in Chromium; screenshots to test/browser/screenshots
	cd test/browser && go test -count=1 -timeout 10m -tags e2e ./...

.PHONY: check
check: format vet lint cross test-386 race ## all that a change must pass: format, vet, lint, cross builds, tests with -race

.PHONY: format
format: ## fail if a file is not formatted
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "not formatted:"; echo "$$out"; exit 1; }

.PHONY: vet
vet: ## go vet, the end-to-end tests too
	@for module in $(MODULES); do (cd $$module && go vet -tags e2e ./...) || exit 1; done

.PHONY: lint
lint: ## golangci-lint as pinned in tools/go.mod
	@for module in $(MODULES); do (cd $$module && $(TOOL) golangci-lint run --build-tags e2e ./...) || exit 1; done

.PHONY: cross
cross: ## build without cgo for linux and darwin, amd64 and arm64
	@for os in linux darwin; do for arch in amd64 arm64; do \
		echo "build $$os/$$arch"; GOOS=$$os GOARCH=$$arch $(GO) build -o /dev/null ./cmd/sandbox || exit 1; \
		GOOS=$$os GOARCH=$$arch $(GO) vet ./... || exit 1; \
	done; done

.PHONY: test-386
test-386: ## run the workload's tests as a 32-bit program: the same bytes
	./scripts/test-386.sh

.PHONY: race
race: ## run the tests with the race detector
	go test -race -p 1 -timeout 30m $$(go list ./... | grep -v $(ARITHMETIC))
	go test -race -short -p 1 -timeout 30m $$(go list ./... | grep $(ARITHMETIC))

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (20s) each
	./scripts/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: ## measure the engine and the load generator's cost ratios
	go test -run '^$$' -bench . -benchtime 2s ./internal/...

# The tools of the end-to-end tests are built once for each version and kept
# outside of the checkout.
E2E_CACHE    ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sandbox-e2e
E2E_TOFU      = $(E2E_CACHE)/tofu-$(shell cd tools/tofu && go list -m -f '{{.Version}}' github.com/opentofu/opentofu)/tofu
E2E_PROVIDER  = $(E2E_CACHE)/provider-$(shell cd tools/provider && go list -m -f '{{.Version}}' github.com/hashicorp/terraform-provider-google)/terraform-provider-google
# make vet has these tests, too.
E2E           = cd test/gcp && CGO_ENABLED=0 E2E_TOFU=$(E2E_TOFU) E2E_PROVIDER=$(E2E_PROVIDER) E2E_SANDBOX=$(abspath $(BIN)) go test -count=1 -vet=off $(COMPILE) -tags e2e
# e2e-build MODULE PROGRAM PACKAGE
e2e-build     = @test -x $(2) || { echo "build $(2)"; mkdir -p $(dir $(2)) && cd tools/$(1) && \
	CGO_ENABLED=0 go build $(COMPILE) -ldflags '-s -w' -o $(2).new $(3) && mv $(2).new $(2); }

.PHONY: e2e-tools
e2e-tools: ## build OpenTofu and the google provider, once (ten minutes on two cores)
	$(call e2e-build,tofu,$(E2E_TOFU),github.com/opentofu/opentofu/cmd/tofu)
	$(call e2e-build,provider,$(E2E_PROVIDER),github.com/hashicorp/terraform-provider-google)

.PHONY: e2e-terraform
e2e-terraform: e2e-tools ## run terraform/gcp through OpenTofu and the google provider against a stand-in API (six minutes)
	$(E2E) -parallel 4 -timeout 30m . ./computeapi

.PHONY: e2e-machines
e2e-machines: ## run installation and its stand-ins, machines and package repositories, on their own (as root, on Linux; eight minutes)
	go test -count=1 -p 1 -timeout 30m -tags e2e ./test/lab/... ./internal/install/lab

.PHONY: e2e
e2e: build e2e-tools ## run the whole flow on a stand-in cloud with real machines (as root, on Linux; five minutes, twenty the first time)
	$(E2E) -timeout 30m ./flow

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist
