# `make` lists the targets. The first two that a newcomer needs are `make up` and `make test`.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

BIN := bin
# One set of flags for every go command, those that tests start included: the build cache holds a package once per set, and a
# second set would compile Kubernetes' client again. The same sources give the same bytes on every machine: no paths, no version
# stamps, no C compiler, and nothing for debuggers, which the programs are stripped of anyway: compilers take 4 to 11 % less time without.
# The tag keeps gRPC's traces out, whose pages bring in templates: with those a program holds every method
# that something might call by name. Flags of the linker may differ, they compile nothing again. tools/go is the go command with
# these flags.
include tools/go.env
export CGO_ENABLED GOFLAGS
# How many builds run at once where they share little: one links, on one processor, while another compiles.
JOBS ?= 2
# What `porthole version` prints: make release sets it.
VERSION ?=
# The go command for builds. The compiler collects no garbage before it has 2 GiB, which takes 11 to 18 % off the processor time of a
# build, and each compiler has one thread, which takes off 5 to 19 % more: there are as many compilers as processors.
# Tests must not run so.
COMPILE := GOGC=off GOMEMLIMIT=2GiB GOMAXPROCS=1 GOFLAGS="$(GOFLAGS) -p=$(shell nproc)" go
GOBUILD := $(COMPILE) build -ldflags="-s -w -buildid=$(if $(VERSION), -X porthole.dev/porthole/cli/version.release=$(VERSION))"
# Programs of ours, one folder of cmd/ each. kubelet.exe is porthole.exe under the name that installers expect, and
# win-bridge.exe is win-overlay.exe and wincni.exe too.
PROGRAMS := $(notdir $(wildcard cmd/*))
LINUX_PROGRAMS := $(filter porthole% ovn_cni,$(PROGRAMS))
WINDOWS_PROGRAMS := $(filter-out porthole-routes porthole-host porthole-web,$(PROGRAMS))
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# What the state folder of a local cluster is: DIR=/some/where make up
DIR ?= /var/lib/porthole
UP_FLAGS ?=
# Most packages bring hosts of their own and wait for them most of the time, so that two go on at once; those that bring up
# the whole cluster follow one after the other.
TEST_PACKAGES ?= ./...
TEST_FLAGS ?= -timeout 20m
BENCH_FLAGS ?=

# Third-party programs (target bundle) and the DLLs of the emulated Windows host (target dll).
include bundle/bundle.mk
include emulator/dll/dll.mk
# Upstream's conformance suite (target conformance).
-include test/conformance/conformance.mk
PARTS := bundle dll root

.PHONY: help
help: ## list the targets
	@echo "Porthole: Windows Server containers on Kubernetes, and an emulated Windows host to try them on Linux."
	@echo
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | \
		while IFS=$$'\t' read -r name what; do printf '  make %-8s %s\n' "$$name" "$$what"; done

# With ARCHIVE=FILE, a release archive for Linux, only our own programs are built: make up ARCHIVE=porthole-v0.1.0-linux-amd64.tar.gz
ARCHIVE ?=

.PHONY: up
up: deps-up $(if $(ARCHIVE),unpack programs dll,build) ## from nothing to a running cluster with the sample on it (root; safe to repeat); ARCHIVE=FILE takes the third-party programs from a release
	$(BIN)/porthole up --dir $(DIR) $(UP_FLAGS)
	tools/sample $(DIR)

.PHONY: unpack
unpack:
	@tools/unpack "$(ARCHIVE)" $(BIN)

.PHONY: down
down: ## stop the local cluster and remove everything it made
	@if [ -x $(BIN)/porthole ]; then $(BIN)/porthole down --dir $(DIR); else echo "nothing to stop: $(BIN)/porthole is not built"; fi

.PHONY: build
# The C compiler, which works on one processor, goes on beside the bundle, whose longest parts (a chain of packages, a link) do too.
build: programs ## bin/porthole, bin/windows/*.exe and the third-party programs
	@$(MAKE) --no-print-directory -j$(JOBS) $(PARTS)

# Both systems at once: they share no package, and one links while the other compiles.
.PHONY: programs programs-linux programs-windows
programs: page
	@$(MAKE) --no-print-directory -j$(JOBS) programs-linux programs-windows

# The page of `porthole web` is embedded into the program.
.PHONY: page
page: ## the page of porthole web, bundled from web/page/src (needs nodejs and npm)
	@tools/page

.PHONY: docs
docs: ## bin/docs: the documents as a site, with a search; fails if a link leads nowhere
	@go run ./tools/site -out $(BIN)/docs

.PHONY: drawings
drawings: ## docs/drawings/*.svg, drawn from the *.dot beside them (needs nodejs and npm)
	@tools/page packages
	@node tools/drawings/draw.mjs

programs-linux:
	@mkdir -p $(BIN)
	@for p in $(LINUX_PROGRAMS); do echo "building $(BIN)/$$p"; $(GOBUILD) -o $(BIN)/$$p ./cmd/$$p; done

programs-windows:
	@mkdir -p $(BIN)/windows
	@$(COMPILE) build -o $(BIN)/pealign ./tools/pealign
	@linked=$$(mktemp -d $(BIN)/linked.XXXXXX); trap "rm -rf $$linked" EXIT; \
	GOOS=windows GOARCH=amd64 $(GOBUILD) -o $$linked/ $(addprefix ./cmd/,$(WINDOWS_PROGRAMS)); \
	for p in $(WINDOWS_PROGRAMS); do exe=$(BIN)/windows/$$p.exe; echo "building $$exe"; $(BIN)/pealign $$linked/$$p.exe $$exe; done
	@ln -f $(BIN)/windows/porthole.exe $(BIN)/windows/kubelet.exe
	@for p in win-overlay wincni; do ln -f $(BIN)/windows/win-bridge.exe $(BIN)/windows/$$p.exe; done

# One small program for each probe of check/probe, for machines that have nothing else of ours.
.PHONY: probes
probes: ## bin/windows/probe-*.exe: ask a Windows host what docs/windows-facts.md wants to know, as JSON
	@mkdir -p $(BIN)/windows
	GOOS=windows GOARCH=amd64 $(GOBUILD) -o $(BIN)/windows/ ./test/probes/probe-...

.PHONY: deps-up
deps-up:
	@tools/deps up

.PHONY: deps
deps: ## install the distribution's packages that are missing (root)
	@tools/deps

.PHONY: check
check: ## format, vet, static analysis, import rules, cross-builds
	@tools/check $(STATICCHECK)

.PHONY: measure
measure: ## how easy the code is to read, in figures
	@go run ./tools/codecheck -measure

# Packages whose tests need root, or programs that `make build` makes: a regular expression.
ROOT_PACKAGES := test/.*|cmd/.*|tools/(release|root)|cli/(join|host)|internal/ownroot|cluster(/(nodes|preflight|supervise))?|kubelet/volume(/(disk|files))?|emulator/(hnsd|hcsd)/serve
ROOT_PACKAGES := $(ROOT_PACKAGES)|emulator/(host|wine|lab|scm|firewall|confine|curl|nslookup|tar|openvswitch)(/.*)?
ROOT_PACKAGES := $(ROOT_PACKAGES)|emulator/dataplane(/(flows|hoststack|links|nft|probe|rtnl))?
WITH_ROOT := ^porthole.dev/porthole/($(ROOT_PACKAGES))$$
# Of these, packages whose tests want no other cluster on the machine, or have one without a name, of which there is one
# at a time (test/networks has one too, and ends long before); and those that take longest, which begin first so that
# nothing waits for them at the end.
ALONE := /test/(lifecycle|conformance)$$
LONGEST := /(test/(lab|networks|kubelet|proxy|proxy/matrix)|emulator/(wine|hnsd/serve|hcsd/serve)|cli/host)$$

# SHARD=2/4 tests every fourth package, beginning with the second: a part of `make test` for one of four machines.
SHARD ?= 1/1
SHARDED := awk -v shard=$(SHARD) 'BEGIN { split(shard, s, "/") } NR % s[2] == s[1] % s[2]'

.PHONY: test
test: deps deps-conformance build bundle-tests cri-suite conformance-build $(if $(filter 1/%,$(SHARD)),check) ## everything that can be tested on this machine; what CI runs; SHARD=I/N the I-th of N parts
	@go build -o $(BIN)/testsummary ./tools/testsummary
	@all=$$(go list $(TEST_PACKAGES) | $(SHARDED)); \
	packages() { grep "$$@" <<<"$$all" || true; }; \
	{ packages -vE '$(WITH_ROOT)' | CGO_ENABLED=1 xargs -r go test -race -p 2 -json $(TEST_FLAGS) || true; \
	  { packages -E '$(LONGEST)'; packages -E '$(WITH_ROOT)' | grep -vE '$(ALONE)|$(LONGEST)'; } | xargs -r go test -p 2 -json $(TEST_FLAGS) || true; \
	  packages -E '$(ALONE)' | xargs -r go test -p 1 -json $(TEST_FLAGS) || true; } | $(BIN)/testsummary

UNPRIVILEGED = $(if $(filter 0,$(shell id -u)),-exec "$(CURDIR)/tools/unprivileged") $$(go list ./... | grep -vE '$(WITH_ROOT)')

.PHONY: unit
unit: page ## the tests that need neither root nor third-party programs, as a user who is not root: after each edit (2 minutes; the go command keeps results, but not root's)
	@go test $(UNPRIVILEGED) | grep -v 'no test files'

# Packages that need root and whose code runs in the process of the test; and packages that run Linux programs of ours,
# which are then built with the race detector. Their tests are not: one puts its own program into a container, where a
# program with the detector finds no libraries. A server that is watched for races needs more memory than one may.
RACE_ROOT_PACKAGES := ./cli/join ./cluster ./cluster/nodes ./cluster/preflight ./cluster/supervise ./kubelet/volume ./kubelet/volume/disk ./kubelet/volume/files ./routes/... ./emulator/hnsd/... ./emulator/hcsd/...
RACE_PROGRAM_PACKAGES := ./test/kubelet ./test/web ./test/flannel ./test/ovn
RACE_PROGRAM_SKIP := TestServerIsSmall

.PHONY: test-race
test-race: deps build bundle-tests ## the race detector: packages without root, some of those with root, and programs that tests run (the first build takes minutes)
	@CGO_ENABLED=1 go test -race -timeout 10m $(UNPRIVILEGED) | grep -v 'no test files'
	@CGO_ENABLED=1 go test -race -timeout 20m -p 1 $(RACE_ROOT_PACKAGES) | grep -v 'no test files'
	@mkdir -p $(BIN)/race
	@for p in $(LINUX_PROGRAMS); do echo "building $(BIN)/race/$$p"; CGO_ENABLED=1 go build -race -o $(BIN)/race/$$p ./cmd/$$p; done
	@tools/withrace go test -timeout 30m -p 1 -skip '$(RACE_PROGRAM_SKIP)' $(RACE_PROGRAM_PACKAGES)

.PHONY: bench-proxy
bench-proxy: deps build upstream-proxy ## the service proxy beside upstream's kube-proxy.exe on equal emulated hosts, as JSON lines
	go run ./test/bench -only proxy,relay $(BENCH_FLAGS)

.PHONY: test-builds
test-builds: deps build ## a cluster of Windows Server 2022 and 2025: which image runs on which node
	@PORTHOLE_LAB_BUILDS=20348,26100 go test -count=1 -timeout 10m -v -run 'TestMixedBuilds|TestImages' ./test/lab

.PHONY: test-reboot
test-reboot: deps build ## a Windows node reboots, with all that HNS may lose or keep; its pods come back
	@PORTHOLE_LAB_REBOOTS=all go test -count=1 -timeout 10m -v -run 'TestReboot|TestProxyRestart' ./test/lab

.PHONY: test-lab
test-lab: deps build ## what of the local cluster's tests takes too long for make test: storage, the firewall, 100 Windows pods; eviction on Windows nodes of 4 GiB (20 minutes)
	@PORTHOLE_LAB=long go test -count=1 -timeout 20m -v -run 'TestStorage|TestWindowsFirewall|TestCrowd' ./test/lab
	@PORTHOLE_LAB_MEMORY=4Gi go test -count=1 -timeout 15m -v -run TestWindowsEviction ./test/lab

.PHONY: root
root: $(BUNDLE_RUNC) ## bin/root: Wine 10 and all else that hosts start, of pinned packages of Debian 13 (160 MB)
	@mkdir -p $(BIN)/roots
	@go build -o $(BIN)/inroot ./tools/inroot
	@ln -sfn "roots/$$(basename "$$(go run ./tools/root make $(BIN)/roots $(BUNDLE_RUNC))")" $(BIN)/root

.PHONY: test-programs
test-programs: deps build ## programs for Windows that others built, as pods: Node.js, Bun, Deno, Dart, Caddy, Traefik, PostgreSQL, .NET, windows_exporter (8 minutes, and once as long as Traefik's 2480 packages take; downloads 590 MB)
	@PORTHOLE_LAB=programs go test -count=1 -timeout 30m -v -run TestRealPrograms ./test/lab

.PHONY: test-cgroup-v2
test-cgroup-v2: deps build ## the kubelet and its pods on a kernel that has cgroup v2 alone, without systemd and with it, beside upstream's kubelet (12 minutes)
	@PORTHOLE_CGROUP_V2=long go test -count=1 -timeout 35m -v -run 'TestCgroupV2$$|TestSystemd$$' ./test/kubelet

.PHONY: test-networks
test-networks: deps build bundle-tests ## each mode of --network with a cluster of its own: what takes too long for make test
	@PORTHOLE_NETWORKS=long go test -count=1 -timeout 90m -v -p 1 ./routes/bgp ./routes/killtest ./test/networks
	@PORTHOLE_NETWORKS=long go test -count=1 -timeout 15m -v -run '^TestBGPKilled$$' ./emulator/hnsd/serve

.PHONY: test-ovn
test-ovn: deps build ## OVN's programs and databases fail beside Open vSwitch's on Linux hosts, the databases for 10 minutes (17 minutes)
	@PORTHOLE_NETWORKS=long go test -count=1 -timeout 30m -v ./test/ovn

.PHONY: test-runtime
test-runtime: deps bundle bundle-tests cri-suite hcsshim-suite nerdctl upstream-kubelet $(CONFORMANCE_OUT)/windows/sh.exe ## containerd.exe and runhcs, unmodified, on emulated hosts of each Windows build
	@PORTHOLE_RUNTIME=long go test -count=1 -timeout 55m -v ./test/runtime

.PHONY: test-join
test-join: deps build kubeadm windows-runtime upstream-kubelet ## porthole join and leave: machines in namespaces and a control plane of kubeadm, emulated Windows hosts and the local cluster
	@PORTHOLE_JOIN=long go test -count=1 -timeout 40m -v -p 1 ./test/join ./test/joinwindows

.PHONY: test-join-reboots
test-join-reboots: deps build windows-runtime ## a Windows node that join made reboots 50 times: HNS loses other things each time, the API server is away in a third
	@PORTHOLE_JOIN=20348 PORTHOLE_JOIN_REBOOTS=50 go test -count=1 -timeout 60m -v -run TestReboots ./test/joinwindows

# Versions of kubeadm whose control planes a machine joins. Each takes ten minutes of a processor to compile.
KUBEADM_VERSIONS ?= v1.34.4 v1.35.4 v1.37.2

.PHONY: test-join-versions
test-join-versions: deps build kubeadm $(KUBEADM_VERSIONS:%=$(BIN)/bundle/kubeadm-%) ## a machine joins control planes of other versions of kubeadm: KUBEADM_VERSIONS=v1.35.4 (an hour with all, nightly)
	@PORTHOLE_JOIN=versions PORTHOLE_JOIN_VERSIONS="$(KUBEADM_VERSIONS)" go test -count=1 -timeout 60m -v -run TestVersions ./test/join

$(BIN)/bundle/kubeadm-v%: tools/kubeadm bundle/controlplane/kubeadm/main.go
	tools/kubeadm v$* $@

.PHONY: test-join-upgrades
test-join-upgrades: deps build windows-runtime ## the programs of a Windows node that join made are exchanged 20 times under 50 open connections (8 minutes)
	@PORTHOLE_JOIN=20348 PORTHOLE_JOIN_UPGRADES=20 go test -count=1 -timeout 60m -v -run TestUpgrades ./test/joinwindows

.PHONY: bench-join
bench-join: deps build kubeadm windows-runtime ## porthole join beside kubeadm join with upstream's kubelet, join on emulated Windows hosts, 20 at once, a second join, reboots with and without pods, sizes, as JSON lines (20 minutes)
	@PORTHOLE_JOIN_SPEED=3 go test -count=1 -timeout 40m -p 1 -v -run TestJoinSpeed ./test/join ./test/joinwindows

.PHONY: test-daemonsets
test-daemonsets: deps build bundle-tests windows-agents ## flanneld.exe and upstream's kube-proxy.exe as DaemonSets of HostProcess pods, on Windows nodes with a kubelet and containerd.exe only (5 minutes)
	@PORTHOLE_DAEMONSETS=long go test -count=1 -timeout 20m -v -run TestDaemonSets ./test/networks

.PHONY: test-tutorial
test-tutorial: deps build ## the commands of docs/use/tutorial.md, one after the other, with what they print (2 minutes)
	@PORTHOLE_TUTORIAL=1 go test -count=1 -timeout 40m -v -run TestTutorial ./test/tutorial

.PHONY: bench-cni
bench-cni: deps ## win-bridge.exe beside upstream's on an emulated host, as JSON lines: ADD, DEL, calls to HNS
	@PORTHOLE_CNI_SPEED=20 go test -count=1 -timeout 10m -run TestPluginSpeed -v ./emulator/hnsd/serve

.PHONY: test-cni
test-cni: deps build ## 10,000 pods through the CNI plugins' code with kills and failing calls, 60 through win-bridge.exe, the sweep of a node (15 minutes)
	@PORTHOLE_CNI_CHURN=10000 go test -count=1 -timeout 5m -v -run TestChurn ./cni/attach
	@PORTHOLE_CNI_KILLS=60 go test -count=1 -timeout 15m -v -run TestPluginIsKilled ./emulator/hnsd/serve
	@PORTHOLE_LAB_SWEEP=1 go test -count=1 -timeout 20m -v -run TestForgottenAddress ./test/lab

.PHONY: test-proxy
test-proxy: deps build upstream-proxy ## upstream's kube-proxy.exe shows each documented failure, ours does not
	@go test -count=1 -timeout 60m -v ./test/proxy -args -upstream -thorough
	@go test -count=1 -timeout 5m -v -run TestProxies ./test/proxy/lab
	@go test -count=1 -timeout 5m -v -run 'TestOverlayUpstream|TestMatrixOverlay' ./test/proxy/matrix -args -upstream

.PHONY: bench
bench: deps build ## figures of ours beside those of peers, as JSON lines
	@if [ -d test/bench ]; then go run ./test/bench $(BENCH_FLAGS); else echo "no benchmarks yet" >&2; exit 1; fi

.PHONY: bench-kubelet
bench-kubelet: deps build bundle-tests upstream-kubelet ## our kubelet beside upstream's and beside the bare CRI calls, on Linux and on an emulated Windows host with containerd.exe, as JSON lines (25 minutes at most)
	go run ./test/bench -only kubelet,windows $(BENCH_FLAGS)

.PHONY: bench-runtime
bench-runtime: deps build bundle-tests ## containerd.exe and runhcs of emulated Windows nodes: calls, pods, memory and processor time, as JSON lines (4 minutes)
	go run ./test/bench -only runtime $(BENCH_FLAGS)

.PHONY: bench-web
bench-web: deps build ## the page of 50 nodes and 2,000 pods in a browser, and its server: times, frames, memory, by their bounds, on a machine that does nothing else (1 minute)
	@PORTHOLE_WEB=quiet go test -count=1 -timeout 10m -v -run 'TestLargeCluster|TestServerIsSmall' ./test/web

.PHONY: bench-nodes
bench-nodes: deps build ## 20 emulated Windows nodes with 5 pods each: time and memory beside the targets, as JSON lines (5 minutes)
	go run ./test/bench -only nodes -nodes 20 -pods 5 $(BENCH_FLAGS)

.PHONY: bench-routes
bench-routes: deps build bundle-tests ## host-gateway, vxlan and bgp beside flanneld and BIRD: routes to added nodes, large clusters, throughput, lost packets, as JSON lines (7 minutes)
	go run ./test/bench -only routes $(BENCH_FLAGS)

.PHONY: release
release: deps-up build ## dist/: archives for Windows nodes and for a local cluster without Go, with sums, SBOM and licenses: VERSION=v0.1.0
	@go run ./tools/release -version "$(VERSION)" -out dist

.PHONY: test-release
test-release: deps ## programs built twice, in different folders by different users, are the same (10 minutes)
	@PORTHOLE_RELEASE=long go test -count=1 -timeout 60m -v -run BuiltTwice ./tools/release

.PHONY: test-archive
test-archive: deps build ## the archive for Linux where Go is nowhere, and in privileged containers whose root is busybox's, Debian 12's, 13's and testing's (10 minutes)
	@tools/deps archive
	@PORTHOLE_ARCHIVE=1 go test -count=1 -timeout 25m -v -p 1 ./test/archive

.PHONY: test-vm
test-vm: deps build ## a cluster in a virtual machine of QEMU, with Debian 13's kernel and cgroup v2 alone: systemd and none, a power failure, a restart, Podman (without KVM 40 minutes, on a machine that does nothing else)
	@tools/deps vm
	@PORTHOLE_VM=1 go test -count=1 -timeout 110m -v ./test/vm

.PHONY: clean
clean: ## remove what was built (not the local cluster: that is `make down`)
	rm -rf $(BIN)
