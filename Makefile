# Every target works on a fresh clone with Go, git and make; those with the race detector want a C compiler, too.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO ?= go
STEP := test/tools/step
# Prints the path of the linter, which Go builds if its build cache has it not.
LINTER := $(GO) tool -modfile=$(CURDIR)/test/tools/go.mod -n golangci-lint
# Where the linter sees the modules together.
WORKSPACE := $(CURDIR)/test/tools/lint.work
# The modules with code of ours, but for test/cluster; test/tools only pins tools.
MODULES := . informer/controllerruntime examples bench test/e2e test/browser test/deploy test/release test/clients/manager
PACKAGES := $(patsubst %,./%/...,$(MODULES))
# Those that users import.
LIBRARIES := . informer/controllerruntime
# Programs that nobody here wrote, or that know nothing of Larder, each pinned in a module of its own. The tests on a real
# API server run them; those of SOAK_CLIENTS take long to build, and are for make soak.
CLIENTS := manager coredns registry versitygw
SOAK_CLIENTS := stern prometheus
# Other systems that make cross looks at: one of 32 bits, and one that is not Unix. make soak looks at the rest too.
PLATFORMS ?= linux/arm windows/amd64
ALL_PLATFORMS := linux/arm linux/arm64 darwin/arm64 windows/amd64
FUZZTIME ?= 10m
# Larder is pure Go. One setting for lint, e2e and the cluster's programs, so that they share the build
# cache; only the race detector needs cgo.
export CGO_ENABLED := 0
# The build cache then serves every clone of the repository, wherever it is; linting one takes seconds in place of minutes.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
SOAK_TIMEOUT ?= 3h
# Further flags of the benchmark; see go -C bench run . -help.
BENCHFLAGS ?=
# Programs with a factory that make bench restarts: kinds x objects, and changes of each kind meanwhile.
PROGRAMS := 1x10,1x10+1,1x2000,1x2000+1,1x2000+20,8x10,8x10+1,8x1000,8x1000+20,50x10,50x10+1,60x10+1@none,600x1+1@none
# Further flags of the mutants; see go run ./test/mutants -help.
MUTANTFLAGS ?=
BENCHTIME ?= 0.3s
# What one iteration of takes little. That of the others brings 100,000 objects into a file, out of it or into another, and the whole hours: they are
# run by hand, once each, as their comments and docs/adr say.
MICRO := Apply|Codec|ColdStart|Indexer|Open|Pending|Read|Record|Reference|Relist|Select|Unstructured

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## download modules, build kube-apiserver, kubectl, etcd and what else the tests run (minutes, once per machine)
	@for m in $(MODULES); do $(STEP) "downloading the modules of $$m" $(GO) -C $$m mod download; done
	@GOWORK=$(WORKSPACE) $(STEP) "downloading what the modules have only together" $(GO) list -deps -test $(PACKAGES) >/dev/null
	@for c in $(CLIENTS) prometheus; do $(STEP) "downloading the modules of test/clients/$$c" $(GO) -C test/clients/$$c mod download; done
	@$(STEP) "downloading the programs of examples/adoptions" $(GO) -C test/e2e test -run '^TestPatches$$' ./adoptions
	@$(MAKE) --no-print-directory linter cluster clients chromium

.PHONY: cluster
cluster: ## build only kube-apiserver, kubectl and etcd, and print where they are
	@$(GO) run -C test/cluster ./cmd/build

# Go builds what its build cache has not, and prints the path.
.PHONY: clients
clients:
	@for c in $(CLIENTS); do $(STEP) "building $$c, once" $(GO) -C test/clients/$$c tool -n $$c >/dev/null; done
	@$(STEP) "building promtool, once" $(GO) -C test/clients/prometheus tool -n promtool >/dev/null

.PHONY: chromium
chromium: ## get the browser in which the page is tested: Debian's chromium, by apt-get, where it is missing
	@$(STEP) "chromium" $(GO) -C test/browser run ./cmd/chromium

.PHONY: larder
larder: ## build bin/larder
	@$(STEP) "building larder" $(GO) build -o bin/larder ./cmd/larder

.PHONY: demo
demo: ## the whole story on an embedded API server, in under a minute; needs only Go
	@$(GO) run ./test/demo/run

.PHONY: demo-real
demo-real: ## the same story on a real kube-apiserver
	@cd test/e2e && $(GO) run ./cmd/demo-real

KUBECONFIG_FILE ?= $(CURDIR)/playground.kubeconfig
.PHONY: playground
playground: larder ## a real API server on loopback with a few objects to try things on, until Ctrl-C; prints what to export
	@$(STEP) "building the playground" $(GO) -C test/e2e build -o $(CURDIR)/bin/playground ./cmd/playground
	@exec bin/playground --kubeconfig $(KUBECONFIG_FILE) --bin bin

# One after the other: each of them keeps two processors busy, and two at a time took as long, and each of them so long
# that go test gave up.
.PHONY: test
test: lint cross unit e2e browser ## everything: lint, other systems, unit and race tests, tests on a real API server

.PHONY: unit
unit: unit-main unit-others ## unit, model and script tests and fuzz seeds, under the race detector

# The race detector lets every program that ends sleep for a second, in case that others still race: the tests of each package, and what they start.
RACE := GORACE=atexit_sleep_ms=0

# make lint runs vet. Without what only a debugger reads, linking takes two thirds of the time.
TESTFLAGS := -vet=off -ldflags=-w

.PHONY: race
race:
	@command -v "$$($(GO) env CC)" >/dev/null || { echo "The race detector needs a C compiler: install gcc or clang." >&2; exit 1; }

.PHONY: unit-main
unit-main: race
	@$(STEP) "unit tests" env CGO_ENABLED=1 $(RACE) $(GO) test -race $(TESTFLAGS) -timeout 30m ./store ./cmd/larder ./informer ./... # the longest first

# The benchmark is no part of what users run, and measures nothing under the race detector: make soak has it look.
.PHONY: unit-others
unit-others: race
	@$(STEP) "unit tests of the controller-runtime adapter" env CGO_ENABLED=1 $(RACE) $(GO) -C informer/controllerruntime test -race $(TESTFLAGS) ./...
	@$(STEP) "unit tests of the benchmark" $(GO) -C bench test $(TESTFLAGS) ./...
	@$(GO) -C test/cluster test ./cmd/build
	@$(STEP) "tests of a release" $(GO) -C test/release test $(TESTFLAGS) -timeout 30m ./...

.PHONY: e2e
e2e: cluster clients ## tests on a real kube-apiserver, of the examples and the chart too
	@$(STEP) "tests on a real API server" $(GO) -C test/e2e test $(TESTFLAGS) -parallel 4 -count=1 -timeout 20m ./...
	@$(STEP) "tests of the chart on a real API server" $(GO) -C test/deploy test $(TESTFLAGS) -count=1 -timeout 10m ./...

.PHONY: browser
browser: cluster chromium ## tests of the page of larder serve in a headless Chromium, on a real kube-apiserver
	@$(STEP) "tests in a browser" $(GO) -C test/browser test $(TESTFLAGS) -count=1 -timeout 20m ./...

FLAKY_COUNT ?= 20
# The packages that make flaky runs, as module and package; all of the three modules by default.
FLAKY ?=

.PHONY: flaky
flaky: cluster clients chromium ## each e2e, browser and deploy package FLAKY_COUNT times in a row, alone, in shuffled order, on two busy cores; hours
	@test/tools/flaky $(FLAKY_COUNT) $(FLAKY)

.PHONY: adoptions
adoptions: cluster ## programs of other people with Larder, by the patches of examples/adoptions: their unit tests, and kills on a real API server; a quarter of an hour, part of make soak
	@$(STEP) "programs of other people with Larder" env LARDER_SOAK=1 $(GO) -C test/e2e test -count=1 -v -timeout 2h ./adoptions

.PHONY: soak
soak: cluster ## longer runs of the same tests: more systems, more kills and power losses, whole minutes, 20 minutes of load, the residency None, mutants, fuzzing (FUZZTIME each)
	@$(MAKE) --no-print-directory cross PLATFORMS="$(ALL_PLATFORMS)"
	@$(MAKE) --no-print-directory clients CLIENTS="$(CLIENTS) $(SOAK_CLIENTS)"
	@$(STEP) "soak on a real API server" env LARDER_SOAK=1 $(GO) -C test/e2e test -p 1 -count=1 -v -timeout $(SOAK_TIMEOUT) ./...
	@$(STEP) "tests on a real API server, residency None" env LARDER_TEST_RESIDENCY=None $(GO) -C test/e2e test -parallel 4 -count=1 -timeout 20m ./...
	@$(STEP) "tests on a real API server, objects of client-go" env LARDER_TEST_SOURCE=objects $(GO) -C test/e2e test -parallel 4 -count=1 -timeout 20m .
	@$(STEP) "informers, residency None" env LARDER_TEST_RESIDENCY=None $(GO) test -count=1 ./informer/...
	@$(STEP) "the controller-runtime adapter, residency None" env LARDER_TEST_RESIDENCY=None $(GO) -C informer/controllerruntime test -count=1 ./...
	@$(STEP) "the benchmark, under the race detector" env CGO_ENABLED=1 $(RACE) $(GO) -C bench test -race -count=1 -timeout 20m ./...
	@$(MAKE) --no-print-directory mutants
	@$(STEP) "20,000 images of a power loss" env LARDER_SOAK=1 $(GO) test -count=1 -v -timeout $(SOAK_TIMEOUT) -run '^TestPowerLoss$$' ./internal/powerloss
	@$(STEP) "a handler that sleeps" env LARDER_SOAK=1 $(GO) test -count=1 -v -run '^TestSleepingHandler$$' ./informer
	@$(STEP) "memory at full speed" env LARDER_SOAK=1 $(GO) test -count=1 -v -timeout 1h -run '^TestMemoryAtFullSpeed$$' ./informer
	@$(STEP) "10 million updates" env LARDER_SOAK=1 $(GO) test -count=1 -v -timeout 1h -run '^TestFileDoesNotGrow$$' ./store
	@$(STEP) "rewinds through a flaky link" env LARDER_SOAK=1 $(GO) test -count=1 -timeout 30m -run '^TestOvertakenRewindThroughAFlakyLink$$' ./reflector
	@$(STEP) "model tests" env LARDER_SOAK=1 $(GO) test -count=1 -timeout $(SOAK_TIMEOUT) $$(grep -rl --include='*_test.go' 'pgregory.net/rapid' . | xargs -n1 dirname | sort -u) -rapid.checks=5000
	@$(STEP) "the codecs" $(GO) test -count=1 -run '^(TestGeneratedObjects|TestPeekGenerated)$$' ./codec -larder.rounds=200
	@$(STEP) "files of other page sizes" env LARDER_SOAK=1 $(GO) test -count=1 -run '^TestOtherPageSize$$' ./store
	@grep -rhoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . -H | sed -E 's|^(.*)/[^/]+:func (Fuzz.*)|\1 \2|' | sort -u | while read -r pkg fuzz; do \
		$(STEP) "$$pkg $$fuzz" $(GO) test -toolexec '$(CURDIR)/test/tools/fuzz-ours' -run '^$$' -fuzz "^$$fuzz\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x $$pkg; \
	done

.PHONY: mutants
mutants: ## plants faults, one at a time, and says whether the test that guards the promise notices: twenty minutes (MUTANTFLAGS; see test/mutants)
	@$(GO) run ./test/mutants $(MUTANTFLAGS)

.PHONY: size
size: ## lines, the largest types, exported names and the walk of an event, beside the limits of the design: half a minute
	@$(GO) run ./test/size

PICTURES := house event restart
D2 := $(GO) tool -modfile=$(CURDIR)/test/tools/d2/go.mod d2 --layout=elk --theme=0 --dark-theme=200 --pad=20
.PHONY: pictures
pictures: ## makes the pictures of docs/architecture.md from docs/img/*.d2, and that of the packages from their imports
	@$(GO) run ./test/size -house > docs/img/architecture-house.d2
	@cd docs/img; for p in $(PICTURES); do \
		$(CURDIR)/$(STEP) "architecture-$$p.svg" $(D2) architecture-$$p.d2 architecture-$$p.svg; \
		echo "<!-- made from $$(git hash-object architecture-$$p.d2) -->" >> architecture-$$p.svg; \
		chmod 644 architecture-$$p.svg; \
	done

.PHONY: bench
bench: cluster ## Larder beside client-go on a real kube-apiserver: hours; writes docs/benchmarks.md (BENCHFLAGS)
	@$(GO) -C bench run . -docs ../docs/benchmarks.md $(BENCHFLAGS)
	@$(GO) -C bench run . -programs $(PROGRAMS)
	@$(MAKE) --no-print-directory bench-micro

.PHONY: bench-quick
bench-quick: cluster ## the same with 10,000 pods, 3 runs and short measurements, after starts at several sizes, up to 100,000: a quarter of an hour
	@$(GO) -C bench run . -starts 10,100,1000,2000,10000,100000
	@$(GO) -C bench run . -programs 8x10@5,8x10@none,8x10+1@5,8x10+1@none
	@$(GO) -C bench run . -quick $(BENCHFLAGS)

.PHONY: bench-micro
bench-micro: ## micro-benchmarks beside bench/baseline.txt, by benchstat: about ten minutes; accept them: cp bench/results/micro.txt bench/baseline.txt
	@mkdir -p bench/results
	@$(STEP) "micro-benchmarks" $(GO) test -run '^$$' -bench '^Benchmark($(MICRO))' -benchmem -benchtime $(BENCHTIME) -count 6 ./codec ./store ./informer > bench/results/micro.txt
	@$(GO) tool -modfile=test/tools/go.mod benchstat bench/baseline.txt bench/results/micro.txt

FLEET_AGENTS ?= 5000
.PHONY: fleet
fleet: ## simulates FLEET_AGENTS agents that come back to one API server, with Larder and with client-go: minutes; writes docs/img/fleet.svg
	@mkdir -p docs/img
	@$(GO) -C bench test ./internal/fleet -run '^TestFleet$$' -count=1 -v -timeout 2h -fleet.agents $(FLEET_AGENTS) -fleet.out $(CURDIR)/docs/img

.PHONY: cross
cross: ## go vet for other systems (PLATFORMS), tests too
	@for p in $(PLATFORMS); do for m in $(LIBRARIES); do \
		GOOS=$${p%/*} GOARCH=$${p#*/} $(STEP) "vet $$m for $$p" $(GO) -C $$m vet ./...; \
	done; done

.PHONY: release
release: ## static programs, an OCI image and checksums of HEAD in dist/, built twice and compared; VERSION=vX.Y.Z tags it before
	@$(if $(VERSION),$(GO) -C test/release run . -tag $(VERSION))
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	for n in 1 2; do \
		git -c advice.detachedHead=false clone -q $(if $(VERSION),--branch $(VERSION)) . "$$tmp/$$n"; \
		$(STEP) "release, build $$n of 2" $(GO) -C "$$tmp/$$n/test/release" run . -out "$$tmp/dist$$n" >/dev/null; \
	done; \
	cmp "$$tmp/dist1/SHA256SUMS" "$$tmp/dist2/SHA256SUMS"; \
	rm -rf dist; mv "$$tmp/dist1" dist; cat dist/SHA256SUMS

.PHONY: linter
linter:
	@$(STEP) "golangci-lint, built once" $(LINTER) >/dev/null

.PHONY: lint
lint: linter ## golangci-lint with go vet's analyzers and the import arrows, in every module; then the prose of comments and documents
	@GOWORK=$(WORKSPACE) $(STEP) "lint" "$$($(LINTER))" run --allow-parallel-runners $(PACKAGES)
	@cd test/cluster && $(CURDIR)/$(STEP) "lint test/cluster" "$$($(LINTER))" run --allow-parallel-runners --config $(CURDIR)/.golangci.yml ./...
	@$(STEP) "prose" $(GO) test ./test/prose

.PHONY: fmt
fmt: linter ## format every Go file
	@"$$($(LINTER))" fmt
