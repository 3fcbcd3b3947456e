# Upstream's conformance suite and what its images are made of, from Go modules of their own, into bin/conformance.
# Included by the root Makefile; `make test` needs it for a few of the suite's tests.

CONFORMANCE_OUT := $(BIN)/conformance
CONFORMANCE_DIR := test/conformance/e2e
CONFORMANCE_BUILD := $(COMPILE) build -ldflags "-s -w"
CONFORMANCE_MOD := $(CONFORMANCE_DIR)/go.mod $(CONFORMANCE_DIR)/go.sum
CONFORMANCE_SUITE := $(CONFORMANCE_OUT)/e2e.test
CONFORMANCE_PROGRAMS := $(addprefix $(CONFORMANCE_OUT)/,ginkgo sh agnhost nonewprivs regression-issue-74839 sample-device-plugin sample-apiserver etcd consumer load pairs windows/agnhost.exe windows/sh.exe windows/consumer.exe windows/load.exe)
CONFORMANCE_DATA := $(CONFORMANCE_OUT)/data
CONFORMANCE_CSI_MOD := bundle/csi/go.mod bundle/csi/go.sum
CONFORMANCE_CSI := $(addprefix $(CONFORMANCE_OUT)/csi/,csi-attacher csi-provisioner csi-resizer)

# What to run: FOCUS, a regular expression that picks tests by name; NODE, lin or win; SUITE, one of test/conformance/suites.go; KUBELET of
# Linux nodes, porthole or upstream; PARALLEL, how many at once.
FOCUS ?=
NODE ?= lin
SUITE ?= conformance
KUBELET ?= porthole
PARALLEL ?= 10
CONFORMANCE_FLAGS ?=

.PHONY: conformance
conformance: deps-conformance build conformance-build ## upstream's conformance suite on a local cluster [FOCUS=regexp] [NODE=lin|win] [SUITE=sig-windows|autoscaling|storage-csi|storage-hostpath|node|node-e2e|network|apps|dra] [KUBELET=upstream] [PARALLEL=n]
	go run ./test/conformance -bin $(BIN) -node $(NODE) -suite $(SUITE) -kubelet $(KUBELET) -parallel $(PARALLEL) -focus "$(FOCUS)" $(CONFORMANCE_FLAGS)

.PHONY: conformance-smoke
conformance-smoke: deps-conformance build conformance-build ## a few of these tests, in at most 5 minutes; `make test` runs them too
	go test -count=1 -timeout 10m -v -run TestSmoke ./test/conformance

.PHONY: conformance-build
conformance-build:
	@$(MAKE) --no-print-directory -j$(JOBS) conformance-parts

.PHONY: conformance-parts
conformance-parts: $(CONFORMANCE_SUITE) $(CONFORMANCE_PROGRAMS) $(CONFORMANCE_DATA) $(if $(filter upstream,$(KUBELET)),$(BUNDLE_KUBELET)) $(if $(filter storage-csi storage-hostpath apps,$(SUITE)),$(CONFORMANCE_CSI) $(CONFORMANCE_OUT)/csi/driver) $(if $(filter node-e2e,$(SUITE)),$(CONFORMANCE_OUT)/e2e_node.test $(CONFORMANCE_OUT)/unit)

.PHONY: deps-conformance
deps-conformance:
	@tools/deps conformance

# Stamped as Kubernetes stamps it: the suite names its version and leaves out tests of other versions by it.
$(CONFORMANCE_SUITE): $(CONFORMANCE_MOD)
	cd $(CONFORMANCE_DIR) && $(COMPILE) test -c -ldflags "$(BUNDLE_KUBE_LD)" -o ../../../$@ k8s.io/kubernetes/test/e2e

$(CONFORMANCE_OUT)/e2e_node.test: $(CONFORMANCE_MOD)
	cd $(CONFORMANCE_DIR) && $(COMPILE) test -c -ldflags "$(BUNDLE_KUBE_LD)" -o ../../../$@ k8s.io/kubernetes/test/e2e_node

$(CONFORMANCE_OUT)/unit: $(wildcard test/conformance/unit/*.go)
	$(CONFORMANCE_BUILD) -o $@ ./test/conformance/unit

$(CONFORMANCE_OUT)/ginkgo: $(CONFORMANCE_MOD)
	cd $(CONFORMANCE_DIR) && $(CONFORMANCE_BUILD) -o ../../../$@ github.com/onsi/ginkgo/v2/ginkgo

$(CONFORMANCE_OUT)/sh: $(wildcard test/conformance/shell/*)
	cd test/conformance/shell && $(CONFORMANCE_BUILD) -o ../../../$@

$(CONFORMANCE_OUT)/windows/sh.exe: $(wildcard test/conformance/shell/*)
	cd test/conformance/shell && GOOS=windows $(CONFORMANCE_BUILD) -o ../../../$@

$(addprefix $(CONFORMANCE_OUT)/,agnhost nonewprivs regression-issue-74839 sample-device-plugin): $(CONFORMANCE_MOD)
	cd $(CONFORMANCE_DIR) && $(CONFORMANCE_BUILD) -o ../../../$@ k8s.io/kubernetes/test/images/$(notdir $@)

# The consumer of the tests of autoscaling, and what it starts to use processors and memory.
$(CONFORMANCE_OUT)/consumer: $(CONFORMANCE_MOD)
	cd $(CONFORMANCE_DIR) && $(CONFORMANCE_BUILD) -o ../../../$@ k8s.io/kubernetes/test/images/resource-consumer

$(CONFORMANCE_OUT)/windows/consumer.exe: $(CONFORMANCE_MOD)
	cd $(CONFORMANCE_DIR) && GOOS=windows $(CONFORMANCE_BUILD) -o ../../../$@ k8s.io/kubernetes/test/images/resource-consumer

$(CONFORMANCE_OUT)/load: $(wildcard test/conformance/load/*)
	$(CONFORMANCE_BUILD) -o $@ ./test/conformance/load

# What carries a driver's connections from a node to the tests of dynamic resource allocation.
$(CONFORMANCE_OUT)/pairs: $(wildcard test/conformance/pairs/*)
	$(CONFORMANCE_BUILD) -o $@ ./test/conformance/pairs

$(CONFORMANCE_OUT)/windows/load.exe: $(wildcard test/conformance/load/*)
	GOOS=windows $(CONFORMANCE_BUILD) -o $@ ./test/conformance/load

$(CONFORMANCE_OUT)/sample-apiserver: $(CONFORMANCE_MOD)
	cd $(CONFORMANCE_DIR) && $(CONFORMANCE_BUILD) -o ../../../$@ k8s.io/sample-apiserver

$(CONFORMANCE_OUT)/etcd: $(CONFORMANCE_MOD)
	cd $(CONFORMANCE_DIR) && $(CONFORMANCE_BUILD) -o ../../../$@ go.etcd.io/etcd/server/v3

$(CONFORMANCE_OUT)/windows/agnhost.exe: $(CONFORMANCE_MOD)
	cd $(CONFORMANCE_DIR) && GOOS=windows $(CONFORMANCE_BUILD) -o ../../../$@ k8s.io/kubernetes/test/images/agnhost

# A storage driver of ours, and what stands between Kubernetes and any storage driver, for SUITE=storage-csi, storage-hostpath and apps.
$(CONFORMANCE_CSI) &: $(CONFORMANCE_CSI_MOD)
	@mkdir -p $(CONFORMANCE_OUT)/csi
	cd bundle/csi && CGO_ENABLED=0 $(CONFORMANCE_BUILD) -o ../../$(CONFORMANCE_OUT)/csi/ github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher \
		github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer

$(CONFORMANCE_OUT)/csi/driver: $(wildcard test/storage/driver/*.go internal/testkit/storagedriver/*.go)
	CGO_ENABLED=0 $(CONFORMANCE_BUILD) -o $@ ./test/storage/driver

# Files that lie in upstream's images beside the programs.
$(CONFORMANCE_DATA): $(CONFORMANCE_MOD)
	@mkdir -p $@
	images=$$(cd $(CONFORMANCE_DIR) && go list -m -f '{{.Dir}}' k8s.io/kubernetes)/test/images; \
	install -m 644 $$images/agnhost/porter/localhost.crt $$images/agnhost/porter/localhost.key $@; \
	for name in nautilus kitten; do \
		install -m 644 $$images/$$name/html/$$name.jpg $@/; install -m 644 $$images/$$name/html/data.json $@/$$name.json; done
	@touch $@
