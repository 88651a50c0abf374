# agentbox: see README.md. `make help` lists the targets.

VERSION := 0.1.0
WITHGO   = PATH="$$HOME/go-toolchain/bin:$$PATH:/usr/local/go/bin"
GO       = $(WITHGO) go
GVISOR  := vmm/gvisor/runsc/embedded/.built
PAGE    := agentbox/page/embedded/.built
# Whatever the caller has: sockets need short paths, and modes are compared. make vet does what -vet would.
TEST     = umask 022 && TMPDIR=/tmp $(WITHGO) build/longest build/took go test -vet=off
LDFLAGS := -s -w -X agentbox/agentbox/cli.version=$(VERSION)

# What is built, tested and vetted is compiled one way, so that nothing is compiled twice. Only the race
# detector needs cgo.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath
export CGO_ENABLED := 0
race raced-all soak: export CGO_ENABLED := 1

# What `make test` has under way at once: a target for each two CPUs with 6 GiB of memory, and two in any
# case of which one waits while the other computes; and of each at least four packages, as many wait more
# than they compute. The scripts of e2e count for themselves (agentbox/e2e/slots_test.go).
TARGETS  = $(shell awk -v n=$$(nproc) '/^MemAvailable:/ { n = n < 4 ? 2 : int(n / 2); m = int($$2 / 6291456); if (m < n) n = m; print n < 1 ? 1 : n }' /proc/meminfo)
PACKAGES = $(shell n=$$(nproc); echo $$((n < 8 ? 4 : n / 2)))
# The packages with tests, but e2e, which has targets of its own. Those in which goroutines are, in the code
# or in its tests, run under the race detector; it has nothing to find in the others, and make nightly lets
# it look all the same.
TESTED   = $(shell find agentbox bench cachestore mesh policy tools/lab tools/longest tools/suites vmm -name '*_test.go' -not -path '*/testdata/*' | xargs -n 1 dirname | sort -u | grep -vx agentbox/e2e)
RACED    = $(shell for d in $(TESTED); do if grep -qP '\bgo (func|[\w.]+)\x28|\.Go\x28' $$d/*.go; then echo ./$$d; fi; done)
UNRACED  = $(filter-out $(RACED),$(addprefix ./,$(TESTED)))

# The tests of which -short leaves something out: what make slow runs, and what make nightly does.
# agentbox/e2e compares them with those that there are (TestEachTestBelongsToOnePart).
GUARDED  = TestConformance|TestFaults|TestBoxSurvivesHostileUser|TestClonesDiffer|TestWorkspaceAfterWarmUp|TestDiskLimit|TestGuestCannotSeeHost|TestIdleMachineReleasesProgramPages|TestImageHasExtendedAttributes|TestMachineProcessesAreConfined|TestWorkspaceBelongsToCaller|TestWaysOutAreClosed
SWEEPS   = TestFaultAtEachStep|TestFlippedBitInAnyFile|TestGCAfterFlippedByte|TestKilledAtAnyStep|TestPowerCuts|TestExecFlood|TestStockSSH|TestPartitionHeals|TestAptErrors|TestAptImage|TestAptImageAsUser|TestMillionChunksFitInMemory|TestSnapshotRestoresAnything|TestSnapshotRestoresRealRepositories|TestHugeTreeWithBaseline|TestNativeCaptureIsTheScripts

.PHONY: help up build release binary modules compiled embedded agent test slow nightly unit race unraced raced-all arm64 e2e e2e-quick e2e-slow e2e-nightly machines sweeps k8s-objects release-key e2e-qemu e2e-git e2e-kvm e2e-lima e2e-release reproducible vet fuzz chaos soak bench bench-history lab bench-peers devcontainer-cli deps deps-test clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

up: deps ## a box of this very repository, with one of its tests run inside
	@$(MAKE) --no-print-directory -j2 build/gocache modules
	@$(MAKE) --no-print-directory compiled
	@$(MAKE) --no-print-directory -j2 embedded
	@$(MAKE) --no-print-directory binary
	GOROOT="$$($(GO) env GOROOT)" bin/agentbox up --approve -- go test -count=1 -v -run TestDigest ./agentbox
	@echo
	@echo 'Next: bin/agentbox up     (a shell in the box; bin/agentbox --help for the rest)'

build: embedded ## the one binary, at bin/agentbox
	@$(MAKE) --no-print-directory binary

# The daemon and the supervisor first: the binary carries them (agentbox/programs). All three are static.
binary:
	$(GO) generate ./agentbox/programs
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/agentbox .

# What takes long the first time, in an order in which nothing is compiled twice and no core waits for a
# download. What fails here fails again in what needs it, and says so there.
modules:
	@$(GO) list -deps . >/dev/null 2>&1 || true
	@cd tools/runsc && $(GO) list -deps . >/dev/null 2>&1 || true

compiled: build/gocache
	@mkdir -p "$$($(GO) env GOCACHE)" && cp -rn build/gocache/. "$$($(GO) env GOCACHE)" 2>/dev/null || true
	@$(GO) build ./agentbox/cli ./agentbox/daemon ./agentbox/place/local/supervisor 2>/dev/null || true

# Where people will download the files from: the formula for Homebrew names it.
RELEASE_URL ?= https://example.com/agentbox/releases/v$(VERSION)
# A file with the key that signs, of `openssl genpkey -algorithm ed25519`.
RELEASE_KEY ?=

# The tool links the command line, so that what go.mod here gets, its own needs too: in a copy.
release: build ## what users install, in dist/: archives, packages, a formula, checksums, provenance (of a commit)
	@test -f $(PAGE) || { echo 'release: the page has no terminal; npm and a network are needed' >&2; exit 1; }
	cp tools/release/go.mod build/release.mod && cp tools/release/go.sum build/release.sum
	$(GO) build -C tools/release -mod=mod -modfile=$(CURDIR)/build/release.mod -o $(CURDIR)/build/release .
	build/release -version $(VERSION) -out dist -url $(RELEASE_URL) -key "$(RELEASE_KEY)"

embedded: agent $(GVISOR) $(PAGE) ## what the binary embeds

agent: ## the guest agent that is embedded in the binary
	$(GO) generate ./vmm/guest

# gVisor and its launcher, embedded too. Making them takes minutes the first time, so only when their source
# has changed.
$(GVISOR): $(wildcard tools/runsc/* tools/runsc/filters/* tools/runsc/patches/*) $(wildcard vmm/guest/netconfig/*.go vmm/guest/protocol/*.go) $(wildcard vmm/gvisor/launch/*.go vmm/gvisor/plan/*.go vmm/nsinit/*.go vmm/unmap/*.go vmm/gvisor/runsc/*.sh agentbox/packed/*.go agentbox/packed/pack/*.go)
	$(GO) generate ./vmm/gvisor/runsc
	@touch $@

# The page's terminal, from npm where that is installed.
$(PAGE): agentbox/page/package-lock.json agentbox/page/build.sh
	$(GO) generate ./agentbox/page

# What the box needs to build one small package without a network and without compiling the standard library
# under emulation: the very cache entries this machine makes. agentbox.yaml includes it in the image by
# content.
build/gocache: go.mod
	mkdir -p build/gocache
	GOCACHE=$(CURDIR)/build/gocache GOFLAGS='-trimpath -buildvcs=false' $(GO) test -count=1 -run TestDigest ./agentbox

test: deps-test build ## what a change has to pass, with real machines (some eight minutes)
	@rm -f build/took
	@$(MAKE) --no-print-directory -j $(TARGETS) BESIDE='-p $(PACKAGES)' e2e-quick vet race unraced
	@build/longest build/took

# On two CPUs one after the other: beside hostile boxes an emulated machine once did not boot in three
# minutes.
slow: deps-test build ## what CI runs besides: long scripts, attacks, faults and kills in real machines (some five minutes)
	@rm -f build/took
	@$(MAKE) --no-print-directory -j $(if $(filter 2,$(TARGETS)),1,$(TARGETS)) BESIDE='-p $(PACKAGES)' e2e-slow machines k8s-objects release-key
	@build/longest build/took

nightly: deps-test build ## what is in neither: scripts in microVMs, whole sweeps, chaos, a soak, fuzz (hours)
	@rm -f build/took
	@$(MAKE) --no-print-directory devcontainer-cli e2e-nightly sweeps raced-all chaos soak fuzz bench-history
	@build/longest build/took

unit: build/longest ## unit tests: nothing boots; a minute or two
	$(TEST) -short -timeout 60m ./...

race: build/longest # unit tests under the race detector, where goroutines are
	$(TEST) -short -race -timeout 60m $(BESIDE) $(RACED)

unraced: build/longest # the others
	$(TEST) -short -timeout 60m $(BESIDE) $(UNRACED)

# Without the packages whose tests need what is lacking there: filters of system calls, other users,
# processes that begin in a control group, and a bound on the memory of git, which QEMU accepts and ignores.
EMULATED = $(filter-out agentbox/check agentbox/home agentbox/place/ssh agentbox/resources/yielding agentbox/snapshot vmm/confine vmm/guest/agent vmm/hostdir/give vmm/qemu,$(TESTED))
arm64: embedded ## unit tests for linux/arm64, emulated (Linux 6.7 or later; an hour on two CPUs)
	export GOARCH=arm64 && umask 022 && TMPDIR=/tmp $(WITHGO) tools/arm64 go test -vet=off -short -timeout 60m $(BESIDE) $(addprefix ./,$(EMULATED))

raced-all: build/longest # all that boots nothing, under the race detector
	$(TEST) -count=1 -short -race -timeout 120m ./...

build/longest: $(wildcard tools/longest/*.go)
	$(GO) build -o $@ ./tools/longest

SOAK ?= 10m
soak: build/longest ## ten minutes of a team at work, under the race detector
	export AGENTBOX_SOAK=$(SOAK) && $(TEST) -count=1 -race -timeout 60m -run TestSoak ./agentbox/team

e2e: build build/longest ## all scripts in real machines, and random kills (hours)
	$(TEST) -count=1 -timeout 600m ./agentbox/e2e

e2e-quick e2e-slow e2e-nightly: build build/longest # its parts
	export AGENTBOX_E2E_PART=$(@:e2e-%=%) && $(TEST) -count=1 -timeout 600m ./agentbox/e2e

machines: embedded build/longest ## what must hold in machines of each kind: the suite, faults, attacks
	$(TEST) -count=1 $(BESIDE) -timeout 120m -run '^($(GUARDED))$$' ./agentbox/place/local ./vmm/guest ./vmm/container ./vmm/gvisor ./vmm/qemu

sweeps: embedded build/longest # each fault at each step, and what else takes minutes
	export AGENTBOX_LARGE=1 && $(TEST) -count=1 -timeout 120m -run '^($(SWEEPS))$$' ./agentbox/environment ./agentbox/snapshot ./cachestore/... ./mesh/gossip ./vmm/image

# As root. The roots they make of Debian packages, some GB, stay in build/.hosts for the next run.
HOSTS    = export AGENTBOX_HOSTS=$(CURDIR)/build/.hosts && umask 022 && TMPDIR=/tmp $(GO) test -count=1 -v

e2e-qemu: agent ## machines with the QEMUs of Debian's oldstable, stable and testing (some 15 minutes)
	$(HOSTS) -timeout 120m -run TestEveryQEMU ./agentbox/e2e/hosts

e2e-git: build ## repositories of the git of Debian's testing (some 3 minutes)
	$(HOSTS) -timeout 30m -run TestNewerGit ./agentbox/e2e/hosts

e2e-kvm: embedded ## machines and scripts under kvm-amd, on an emulated host made for it (3 GB)
	$(HOSTS) -timeout 300m -run TestKVM ./agentbox/e2e/hosts

e2e-release: build ## make release from another directory: the same bytes; and its package on a bare Debian (some 10 minutes)
	$(HOSTS) -timeout 60m -run TestRelease ./agentbox/e2e/hosts

e2e-lima: build ## a machine by Lima under emulation, and boxes in it (an hour)
	$(HOSTS) -timeout 180m -run TestLima ./agentbox/e2e/hosts

k8s-objects: # the objects of tasks on Kubernetes, by its own defaults and validation (two minutes to compile)
	CGO_ENABLED=0 $(GO) test -C tools/k8s ./objects

release-key: # what signs a release
	$(GO) test -C tools/release ./...

# As root, with etcd-server, containerd, runc, containernetworking-plugins and busybox-static. The programs
# stay for the next run.
e2e-k8s: build build/k8s/k8s ## tasks on a Kubernetes cluster made for it (15 minutes to compile, then three)
	export AGENTBOX_KUBERNETES=$(CURDIR)/build/k8s && umask 022 && TMPDIR=/tmp $(GO) test -count=1 -v -timeout 30m ./agentbox/e2e/cluster

K8S := $(shell sed -n 's/^.*k8s.io.kubernetes \(v[0-9.]*\)$$/\1/p' tools/k8s/go.mod)
build/k8s/k8s: tools/k8s/go.mod tools/k8s/main.go
	$(GO) build -C tools/k8s -ldflags '-s -w -X k8s.io/component-base/version.gitVersion=$(K8S) -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37' -o $(CURDIR)/$@ .
	for name in kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do ln -sf k8s build/k8s/$$name; done

reproducible: ## ten sets of packages, each built twice, and what differs (a mirror, some 20 minutes)
	export AGENTBOX_REPRODUCIBLE=1 && umask 022 && TMPDIR=/tmp $(GO) test -count=1 -v -timeout 180m -run TestReproducible ./vmm/image

# Where else the command line has to build. It has the daemon and the supervisor of Linux on amd64 only.
OTHERS = linux/arm64 darwin/arm64 darwin/amd64

vet: ## go vet, gofmt, staticcheck and whether go.mod is tidy
	$(GO) vet ./...
	$(GO) build -C tools/lint -o $(CURDIR)/build/staticcheck honnef.co/go/tools/cmd/staticcheck
	$(WITHGO) build/staticcheck ./...
	$(GO) mod tidy -diff
	@for m in tools/k8s tools/release; do $(GO) list -C $$m ./... >/dev/null || exit 1; done # they use this module's
	@for on in $(OTHERS); do echo "build for $$on"; GOOS=$${on%/*} GOARCH=$${on#*/} $(GO) build -o /dev/null . || exit 1; done
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }

bench: build ## the figures of docs/internals/benchmarks.md (on an idle machine)
	bin/agentbox bench enter --runs 20

# Kept outside of the checkout, it outlives one: HISTORY=/var/lib/agentbox/bench.jsonl make bench-history
HISTORY ?= build/bench.jsonl
bench-history: up ## this repository's own commands in boxes, added to $(HISTORY) and drawn
	GOROOT="$$($(GO) env GOROOT)" bin/agentbox bench --quick --history $(HISTORY) --html $(HISTORY:.jsonl=.html)
	bin/agentbox bench history $(HISTORY)

lab: embedded ## build/lab, which measures our own parts against other programs
	$(GO) build -o build/lab ./tools/lab

bench-peers: ## what lab mesh --peers build/peers measures beside us: a registry and IPFS
	$(GO) build -C tools/registry -o $(CURDIR)/build/peers/registry github.com/distribution/distribution/v3/cmd/registry
	$(GO) build -C tools/ipfs -o $(CURDIR)/build/peers/ipfs github.com/ipfs/kubo/cmd/ipfs

chaos: build build/longest ## a hundred random kills of boxes of each kind and of a store's processes, and nothing lost or orphaned
	export AGENTBOX_CHAOS=100 && $(TEST) -count=1 -timeout 240m -run 'TestChaos|TestTaskChaos|TestFleetChaos|TestEnterChaos|TestLiveChaos' ./agentbox/e2e
	export AGENTBOX_CHAOS=200 && $(TEST) -short -count=1 -timeout 60m -run 'TestKilledAtAnyStep' ./cachestore

devcontainer-cli: build/longest ## compare our reader of devcontainer.json with the format's own tool, from npm
	npm install --silent --no-audit --no-fund --prefix build/devcontainer-cli @devcontainers/cli@0.89.0
	export AGENTBOX_DEVCONTAINER_CLI=$(CURDIR)/build/devcontainer-cli/node_modules/@devcontainers/cli/devcontainer.js && $(TEST) -count=1 -run TestDevcontainerCLI ./agentbox/config

# Without its own limit, minimizing one input takes the whole half minute, and nothing is tried meanwhile.
fuzz: ## every fuzz target, half a minute each
	@$(WITHGO) tools/fuzz 30s $$($(GO) list ./...)

deps: ## install what running boxes needs
	@tools/deps run >/dev/null

deps-test: ## install what the tests need
	@tools/deps test >/dev/null

clean: ## remove what was built here
	rm -rf bin build dist agentbox/programs/embedded/*.zst agentbox/programs/embedded/*.json vmm/guest/embedded/agentbox-guest* vmm/gvisor/runsc/embedded/*.zst vmm/gvisor/runsc/embedded/*.json $(GVISOR)
