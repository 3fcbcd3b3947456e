# Third-party programs that a local cluster needs, each family in its own Go module, built from upstream's sources into
# bin/bundle. Included by the root Makefile. A family is built again only when its own files change.

BUNDLE_OUT := bin/bundle
BUNDLE_BUILD := $(COMPILE) build
BUNDLE_KUBE_VERSION := v1.36.3
BUNDLE_KUBE_X := -X k8s.io/component-base/version.
BUNDLE_KUBE_LD := -s -w $(BUNDLE_KUBE_X)gitVersion=$(BUNDLE_KUBE_VERSION) $(BUNDLE_KUBE_X)gitMajor=1 $(BUNDLE_KUBE_X)gitMinor=36
BUNDLE_CONTAINERD_VERSION := v2.3.6

bundle-sources = $(shell find bundle/$(1) -type f -not -name '*_test.go' -not -name README.md)

BUNDLE_KUBE := $(BUNDLE_OUT)/kube
BUNDLE_KUBEADM := $(BUNDLE_OUT)/kubeadm
BUNDLE_KUBELET := $(BUNDLE_OUT)/kubelet
BUNDLE_CONTAINERD := $(BUNDLE_OUT)/containerd $(BUNDLE_OUT)/containerd-shim-runc-v2
BUNDLE_RUNC := $(BUNDLE_OUT)/runc
BUNDLE_RUNTIME_WINDOWS := $(BUNDLE_OUT)/windows/containerd.exe
BUNDLE_CTR := $(BUNDLE_OUT)/windows/ctr.exe
BUNDLE_RUNHCS := $(BUNDLE_OUT)/windows/containerd-shim-runhcs-v1.exe
BUNDLE_CRISUITE := $(addprefix $(BUNDLE_OUT)/windows/,cri-integration.test.exe get_owner.exe)
BUNDLE_NERDCTL := $(BUNDLE_OUT)/windows/nerdctl.exe
BUNDLE_CNI := $(addprefix $(BUNDLE_OUT)/cni/,bridge host-local loopback portmap)
BUNDLE_CNI_WINDOWS := $(addprefix $(BUNDLE_OUT)/cni-windows/,host-local.exe win-bridge.exe win-overlay.exe)
BUNDLE_COREDNS := $(BUNDLE_OUT)/coredns
BUNDLE_REGISTRY := $(BUNDLE_OUT)/registry
BUNDLE_PROXYORACLE := $(BUNDLE_OUT)/proxy-oracle
BUNDLE_HELM := $(BUNDLE_OUT)/helm-template
BUNDLE_FLANNELD := $(BUNDLE_OUT)/flanneld
BUNDLE_FLANNELD_WINDOWS := $(BUNDLE_OUT)/windows/flanneld.exe
BUNDLE_FLANNEL_VERSION := v0.28.4
BUNDLE_IMAGES := $(foreach p,pause testapp,$(BUNDLE_OUT)/images/linux/$(p) $(BUNDLE_OUT)/images/windows/$(p).exe)

# The families take their common modules at the same versions, so that each package is compiled once (tools/versions
# checks it). The first family compiles most of what the others share; those are then built side by side.
.PHONY: bundle
bundle: $(BUNDLE_KUBE) ## build the third-party programs of a local cluster
	@$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS)) bundle-others

.PHONY: bundle-others
bundle-others: windows-runtime $(BUNDLE_CONTAINERD) $(BUNDLE_CNI) $(BUNDLE_COREDNS) $(BUNDLE_REGISTRY) $(BUNDLE_IMAGES)

# Programs that no cluster runs unless it is told to, but tests: upstream's kubelet, containerd's client for Windows, upstream's
# CNI plugins for Windows, upstream's choice of backends, Helm's engine, and flanneld.
.PHONY: bundle-tests
bundle-tests: $(BUNDLE_KUBELET) $(BUNDLE_CTR) $(BUNDLE_CNI_WINDOWS) $(BUNDLE_PROXYORACLE) $(BUNDLE_FLANNELD) $(BUNDLE_HELM)

# The container runtime of a Windows node as it ships.
.PHONY: windows-runtime
windows-runtime: $(BUNDLE_RUNTIME_WINDOWS) $(BUNDLE_RUNHCS)

$(BUNDLE_KUBE): $(call bundle-sources,controlplane)
	cd bundle/controlplane && $(BUNDLE_BUILD) -ldflags "$(BUNDLE_KUBE_LD)" -o ../../$@

# kubeadm, and the programs of a control plane that it makes, under their own names. Tests join such a cluster.
.PHONY: kubeadm
kubeadm: $(BUNDLE_KUBEADM)

$(BUNDLE_KUBEADM): $(call bundle-sources,controlplane)
	cd bundle/controlplane && $(BUNDLE_BUILD) -ldflags "$(BUNDLE_KUBE_LD)" -o ../../$@ ./kubeadm

$(BUNDLE_CONTAINERD) &: $(call bundle-sources,containerd)
	cd bundle/containerd && $(BUNDLE_BUILD) -tags no_btrfs,no_devmapper,no_zfs,grpcnotrace \
		-ldflags "-s -w -X github.com/containerd/containerd/v2/version.Version=$(BUNDLE_CONTAINERD_VERSION)" -o ../../$(BUNDLE_OUT)/ \
		github.com/containerd/containerd/v2/cmd/containerd github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
	@touch $(BUNDLE_CONTAINERD)

# runc enters namespaces by C code, before Go's runtime starts its threads. It is linked with everything it needs.
$(BUNDLE_RUNC): $(call bundle-sources,runc)
	@mkdir -p $(@D)
	cd bundle/runc && CGO_ENABLED=1 $(BUNDLE_BUILD) -tags netgo,osusergo,seccomp,urfave_cli_no_docs \
		-ldflags "-s -w -buildid= -linkmode external -extldflags -static" -o ../../$@ github.com/opencontainers/runc

$(BUNDLE_RUNTIME_WINDOWS) $(BUNDLE_CTR): $(BUNDLE_OUT)/windows/%.exe: $(call bundle-sources,containerd)
	@mkdir -p $(@D)
	cd bundle/containerd && GOOS=windows $(BUNDLE_BUILD) \
		-ldflags "-s -w -X github.com/containerd/containerd/v2/version.Version=$(BUNDLE_CONTAINERD_VERSION)" -o ../../$@ \
		github.com/containerd/containerd/v2/cmd/$*

$(BUNDLE_RUNHCS): $(call bundle-sources,runhcs)
	@mkdir -p $(BUNDLE_OUT)/windows
	cd bundle/runhcs && GOOS=windows $(BUNDLE_BUILD) -ldflags "-s -w" -o ../../$@ github.com/Microsoft/hcsshim/cmd/containerd-shim-runhcs-v1

# containerd's own tests of its CRI, and the program that one of its images has.
.PHONY: cri-suite
cri-suite: $(BUNDLE_CRISUITE)

$(BUNDLE_CRISUITE) &: $(call bundle-sources,crisuite)
	@mkdir -p $(BUNDLE_OUT)/windows
	cd bundle/crisuite && GOOS=windows $(COMPILE) test -c -ldflags "-s -w" -o ../../$(BUNDLE_OUT)/windows/cri-integration.test.exe \
		github.com/containerd/containerd/v2/integration
	cd bundle/crisuite && GOOS=windows $(BUNDLE_BUILD) -ldflags "-s -w" -o ../../$(BUNDLE_OUT)/windows/get_owner.exe \
		github.com/containerd/containerd/v2/integration/images/volume-ownership/tools
	@touch $(BUNDLE_CRISUITE)

# nerdctl for Windows, for a test on hosts with containerd.exe.
.PHONY: nerdctl
nerdctl: $(BUNDLE_NERDCTL)

$(BUNDLE_NERDCTL): $(call bundle-sources,nerdctl)
	@mkdir -p $(BUNDLE_OUT)/windows
	cd bundle/nerdctl && GOOS=windows $(BUNDLE_BUILD) -ldflags "-s -w" -o ../../$@ github.com/containerd/nerdctl/cmd/nerdctl

# hcsshim's own tests of the packages that runhcs consists of, but for those about virtual machines.
HCSSHIM := github.com/Microsoft/hcsshim
HCSSHIM_TESTED := $(addprefix $(HCSSHIM)/internal/,cmd cni cpugroup exec hcs jobcontainers jobobject memory oci queue regstate runhcs safefile security signals \
	wclayer/cim winapi) $(addprefix $(HCSSHIM)/,cmd/containerd-shim-runhcs-v1 osversion pkg/cimfs pkg/octtrpc)
BUNDLE_HCSSHIM := $(BUNDLE_OUT)/windows/hcsshim/containerd-shim-runhcs-v1.test.exe

.PHONY: hcsshim-suite
hcsshim-suite: $(BUNDLE_HCSSHIM)

$(BUNDLE_HCSSHIM): $(call bundle-sources,runhcs)
	@mkdir -p $(@D)
	cd bundle/runhcs && GOOS=windows $(COMPILE) test -c -tags admin,grpcnotrace -ldflags "-s -w" -o ../../$(@D)/ $(HCSSHIM_TESTED)
	@touch $@

CNI_PLUGINS := github.com/containernetworking/plugins/plugins

$(BUNDLE_CNI) &: $(call bundle-sources,cni)
	@mkdir -p $(BUNDLE_OUT)/cni
	cd bundle/cni && $(BUNDLE_BUILD) -ldflags "-s -w" -o ../../$(BUNDLE_OUT)/cni/ \
		$(CNI_PLUGINS)/main/bridge $(CNI_PLUGINS)/main/loopback $(CNI_PLUGINS)/meta/portmap $(CNI_PLUGINS)/ipam/host-local
	@touch $(BUNDLE_CNI)

$(BUNDLE_CNI_WINDOWS) &: $(call bundle-sources,cni)
	@mkdir -p $(BUNDLE_OUT)/cni-windows
	cd bundle/cni && GOOS=windows $(BUNDLE_BUILD) -ldflags "-s -w" -o ../../$(BUNDLE_OUT)/cni-windows/ \
		$(CNI_PLUGINS)/main/windows/win-bridge $(CNI_PLUGINS)/main/windows/win-overlay $(CNI_PLUGINS)/ipam/host-local
	@touch $(BUNDLE_CNI_WINDOWS)

$(BUNDLE_COREDNS): $(call bundle-sources,coredns)
	cd bundle/coredns && $(BUNDLE_BUILD) -ldflags "-s -w" -o ../../$@

$(BUNDLE_REGISTRY): $(call bundle-sources,registry)
	cd bundle/registry && $(BUNDLE_BUILD) -ldflags "-s -w" -o ../../$@

$(BUNDLE_HELM): $(call bundle-sources,helm)
	cd bundle/helm && $(BUNDLE_BUILD) -ldflags "-s -w" -o ../../$@

$(BUNDLE_PROXYORACLE): $(call bundle-sources,proxyoracle)
	cd bundle/proxyoracle && $(BUNDLE_BUILD) -ldflags "-s -w" -o ../../$@

# flanneld's main package is one file, which is compiled from a copy without two of its backends: tencentvpc, whose SDK the module
# proxy does not serve at the version that flannel asks for, and udp, which needs a C compiler. All else comes from the module, so that
# go.sum covers it.
FLANNEL := github.com/flannel-io/flannel

define BUNDLE_FLANNEL_BUILD
	@mkdir -p $(@D) $@.src
	cd bundle/flanneld && go mod download $(FLANNEL) && main="$$(go list -m -f '{{.Dir}}' $(FLANNEL))/main.go" && \
		sed -e '/_ ".*\/backend\/tencentvpc"/d' -e '/_ ".*\/backend\/udp"/d' "$$main" > $(CURDIR)/$@.src/main.go && \
		$(1) $(BUNDLE_BUILD) -ldflags "-s -w -X $(FLANNEL)/pkg/version.Version=$(BUNDLE_FLANNEL_VERSION)" -o $(CURDIR)/$@ $(CURDIR)/$@.src/main.go
	@rm -r $@.src
endef

$(BUNDLE_FLANNELD): $(call bundle-sources,flanneld)
	$(call BUNDLE_FLANNEL_BUILD)

# The agents that Windows nodes get as pods: flanneld.exe and upstream's kube-proxy.exe.
.PHONY: windows-agents
windows-agents: $(BUNDLE_FLANNELD_WINDOWS) upstream-proxy

$(BUNDLE_FLANNELD_WINDOWS): $(call bundle-sources,flanneld)
	$(call BUNDLE_FLANNEL_BUILD,GOOS=windows)

$(BUNDLE_OUT)/images/linux/%: $(call bundle-sources,registry)
	cd bundle/registry && $(BUNDLE_BUILD) -ldflags "-s -w -buildid=" -o ../../$@ ./images/$*

$(BUNDLE_OUT)/images/windows/%.exe: $(call bundle-sources,registry)
	cd bundle/registry && GOOS=windows $(BUNDLE_BUILD) -ldflags "-s -w -buildid=" -o ../../$@ ./images/$*

# Upstream's service proxy for Windows is no part of a cluster: tests and benchmarks run it beside ours.
BUNDLE_PEER := $(BUNDLE_OUT)/windows/kube-proxy.exe

.PHONY: upstream-proxy
upstream-proxy: $(BUNDLE_PEER)

$(BUNDLE_PEER): bundle/controlplane/go.mod bundle/controlplane/go.sum
	@mkdir -p $(BUNDLE_OUT)/windows
	cd bundle/controlplane && GOOS=windows $(BUNDLE_BUILD) -ldflags "$(BUNDLE_KUBE_LD)" -o ../../$@ k8s.io/kubernetes/cmd/kube-proxy

# Upstream's kubelet, which tests and benchmarks run beside ours, and `porthole up --linux-kubelet upstream`.
BUNDLE_KUBELET_WINDOWS := $(BUNDLE_OUT)/windows/kubelet.exe

.PHONY: upstream-kubelet
upstream-kubelet: $(BUNDLE_KUBELET) $(BUNDLE_KUBELET_WINDOWS)

$(BUNDLE_KUBELET): bundle/controlplane/go.mod bundle/controlplane/go.sum
	cd bundle/controlplane && $(BUNDLE_BUILD) -ldflags "$(BUNDLE_KUBE_LD)" -o ../../$@ k8s.io/kubernetes/cmd/kubelet

$(BUNDLE_KUBELET_WINDOWS): bundle/controlplane/go.mod bundle/controlplane/go.sum
	@mkdir -p $(BUNDLE_OUT)/windows
	cd bundle/controlplane && GOOS=windows $(BUNDLE_BUILD) -ldflags "$(BUNDLE_KUBE_LD)" -o ../../$@ k8s.io/kubernetes/cmd/kubelet
