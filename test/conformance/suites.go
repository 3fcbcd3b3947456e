package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// suite is a set of upstream's tests that can be run.
type suite struct {
	// labels are those of its tests, as ginkgo's --label-filter.
	labels string
	// focus is a regular expression that its tests must match besides; empty: all.
	focus string
	// about says in the document what it is; the sentence begins with the command.
	about string
	// out are the tests that cannot say anything here.
	out []leftOut
	// peer: the suite runs on upstream's kubelet too, and the two are compared.
	peer bool
	// storage: the cluster has a storage driver and, but for the suites of drivers, which make classes themselves, a
	// default class of ours.
	storage bool
	// linuxNodes is how many Linux nodes the cluster has when the suite runs on those; 0: as many as other suites have.
	linuxNodes int
	// zones: each Linux node is in a zone of its own.
	zones bool
	// onWindows, onLinux: it can run on nodes of this system.
	onWindows, onLinux bool
}

// leftOut are tests that are not run, and why.
type leftOut struct{ pattern, why string }

// Suites that something beside their tests depends on.
const (
	sigWindows      = "sig-windows"
	storageCSI      = "storage-csi"
	storageHostPath = "storage-hostpath"
	nodeE2E         = "node-e2e"
	dra             = "dra"
)

// usual is the part of a label filter of ginkgo that leaves tests out: those of Conformance, which is a suite of its
// own; Disruptive ones, which log in to nodes by SSH; and those that upstream calls flaky or deprecated.
const usual = " && !Conformance && !Disruptive && !Flaky && !Deprecated"

// notOfStorage are the tests of upstream's storage suite that do not involve the kubelet, or cannot run here.
var notOfStorage = []leftOut{
	{`Snapshot|snapshot`, "snapshots are made by the driver and a controller; a kubelet takes no part in them"},
	{`volume-modify|VolumeAttributesClass`,
		"attributes of volumes are changed by the driver's controller; a kubelet takes no part in it"},
	{`any volume data source`, "needs the image of a controller that fills volumes, which is not to be had"},
	{`volume-lifecycle-performance|pvc-deletion-performance`, "figures of a cloud's disks"},
}

// suites by name.
var suites = map[string]suite{
	"conformance": {labels: "Conformance", onWindows: true, onLinux: true},
	sigWindows:    {labels: sigWindows, onWindows: true},
	// The group's other tests need a cloud, and those of an alpha feature an API server that has it.
	// One test runs up to twelve pods that request 500m of CPU each: two nodes have no room for them.
	"autoscaling": {labels: "sig-autoscaling && Feature: containsAny HPA && !Alpha", peer: true, linuxNodes: 4,
		onWindows: true, onLinux: true,
		about: "runs the tests of the horizontal pod autoscaler (test/e2e/autoscaling) that need no cloud."},

	storageCSI: {labels: "!Disruptive && !Flaky", focus: `External Storage`, peer: true, storage: true, onLinux: true,
		about: "runs upstream's suite for storage drivers (`--storage.testdriver`) with a driver of ours, which is as strict as the interface lets a driver be " +
			"(internal/testkit/storagedriver), and upstream's external-provisioner, external-attacher and external-resizer. Tests that stop a kubelet by SSH " +
			"(Disruptive) are not run.",
		out: notOfStorage},
	storageHostPath: {labels: "!Disruptive && !Flaky", focus: `External Storage`, peer: true, storage: true,
		onLinux: true,
		about: "with `CONFORMANCE_FLAGS=-driver=FILE` runs the same suite with csi-driver-host-path, for which upstream runs it, as it is: FILE is its program, " +
			"hostpathplugin, built in its repository (`go build -mod=vendor -ldflags \"-X main.version=v1.17.1\" ./cmd/hostpathplugin`). The results are of its commit 1f2b2e64.",
		out: notOfStorage},
	"node": {labels: "sig-node" + usual + " && !Alpha", peer: true, onLinux: true,
		about: "runs upstream's tests of sig-node beyond conformance that need no cloud.",
		out: []leftOut{
			{`\[Feature:GPUDevicePlugin\]|NVIDIA|\[Feature:GPUUpgrade\]`, "need a GPU"},
			{`SSH|NodeProblemDetector|node-problem-detector`, "log in to nodes by SSH"},
			{`AppArmor|Seccomp|seccomp`, "need AppArmor or profiles on the node"},
			{`DRA|DynamicResourceAllocation`, "are a suite of their own (dra)"},
			{`kubelet_perf|resource tracking|Density`, "measure a large cloud cluster for hours"},
		}},
	nodeE2E: {labels: "NodeConformance && !Conformance && !Slow && !Flaky", peer: true, onLinux: true, linuxNodes: 1,
		about: "runs the tests of upstream's node suite (test/e2e_node) that each node is to pass, beyond those of the conformance suite. The suite starts the kubelet " +
			"itself, with its own configuration, and restarts it.",
		out: []leftOut{
			{`AppArmor`, "need AppArmor"},
			{`volume failing to unmount`, "needs the image of an NFS server, which is not to be had"},
			{`container runtime is temporarily down`, "stops the runtime through systemd's D-Bus"},
			{`Swap.*critical pod`, "reads a file of cgroups v2, with cgroups v1 too"},
			{`pull from private registry with`, "log in to a registry of Google's"},
			{`oom-score-adj should be -99`,
				"want scores that take a capability of the machine's root, CAP_SYS_RESOURCE, which containers often lack"},
			{`GracefulNodeShutdown`, "needs systemd's login manager"},
			{`HugePages.*(multiple|different) page size`,
				"set aside a huge page of 1 GiB, for which a machine that has run for a while has no room"},
			{`ImageID.*RepoDigests`, "pulls an image by the digest of upstream's"},
			{`ImageGCNoEviction|ImageGCTerminatedPodsContainersCleanup|ImageGarbageCollect`,
				"pull all images of the suite, one of them by a digest that only upstream's image has"},
		}},
	dra: {labels: "Feature: containsAny DynamicResourceAllocation" + usual + " && !Alpha && !BetaOffByDefault",
		focus: `\[DRA\]`, peer: true, linuxNodes: 1, onLinux: true,
		about: "runs upstream's tests of dynamic resource allocation that need a kubelet, with upstream's driver, which is a part of the tests. They are told one folder of the " +
			"kubelet for all nodes, and those of a local cluster have one each: the cluster has one node.",
		out: []leftOut{
			{`on multiple nodes|DaemonSet with admin access|dra nodes and device plugin nodes`,
				"need several nodes with one folder"},
			{`with v1beta[12] API`, "need versions of the API that an API server does not serve unless it is told to"},
		}},
	"network": {labels: "sig-network" + usual + " && !Alpha", peer: true, onLinux: true, linuxNodes: 3, zones: true,
		about: "runs upstream's tests of sig-network beyond conformance that need no cloud, on three nodes in a zone each.",
		out: []leftOut{
			{`\[Feature:NetworkPolicy|Netpol|NetworkPolicy`,
				"the pod network of a local cluster has no network policies on Linux nodes"},
			{`LoadBalancer|ESIPP|Ingress|\[Feature:NEG\]|GCE|Firewall`, "need a cloud's load balancer"},
			{`IPv6DualStack|IPv6`, "the cluster has one family of addresses"},
			{`SCTP`, "the kernel here has no SCTP"},
			{
				`\[Feature:Networking-Performance\]|\[Feature:PerformanceDNS\]|Networking-DNS|NodeLocal DNS|dns autoscaling|\[Feature:KubeProxyDaemonSet`, "measure, or need an add-on"},
			{`provide Internet connection|Networking-IPv4`, "the cluster has no way to the Internet"},
		}},
	"apps": {labels: "sig-apps" + usual + " && !Alpha", peer: true, storage: true, onLinux: true,
		about: "runs upstream's tests of sig-apps beyond conformance that need no cloud. The default class of volumes is one of our storage driver.",
		out: []leftOut{
			{`\[Feature:StatefulUpgrade\]`,
				"upgrades the cluster to a version that a script of Kubernetes' own repository names"},
			{
				`\[Feature:StatefulSet\].*(zookeeper|mysql|cockroach|redis)|stateful set.*(zookeeper|mysql|cockroach|redis)|Deploy clustered applications`, "install databases from the Internet"},
		}},
}

// suiteNames lists them.
func suiteNames() string { return strings.Join(slices.Sorted(maps.Keys(suites)), ", ") }

// checkSuite returns an error that names the option if a suite cannot run on these nodes, or not with this kubelet.
func checkSuite(name, node, kubelet string) error {
	s, known := suites[name]
	switch {
	case !known:
		return fmt.Errorf("-suite %s is not known; known: %s", name, suiteNames())
	case node == "win" && !s.onWindows, node == "lin" && !s.onLinux:
		return fmt.Errorf("-suite %s -node %s: this suite does not run on these nodes", name, node)
	case kubelet != ours && kubelet != upstreams:
		return fmt.Errorf("-kubelet %s: must be %s or %s", kubelet, ours, upstreams)
	case kubelet == upstreams && node == "win":
		return fmt.Errorf("-kubelet %s: with -node lin only", kubelet)
	}
	return nil
}

// Kubelets that can be judged, as `porthole up --linux-kubelet` has them.
const (
	ours      = "porthole"
	upstreams = "upstream"
)

// skips is the regular expression of the tests that a suite leaves out; empty: none.
// Each pattern is in parentheses, because it may hold alternatives.
func (s suite) skips() string {
	var all []string
	for _, one := range s.out {
		all = append(all, "("+one.pattern+")")
	}
	return strings.Join(all, "|")
}

// setName is the name under which results are kept: "lin" and "win" for conformance, "sig-windows", and suite-node of
// the others, with "-upstream" behind it if upstream's kubelet ran them.
func setName(name, node, kubelet string) string {
	set := name + "-" + node
	switch name {
	case "conformance":
		set = node
	case sigWindows:
		set = name
	}
	if kubelet == upstreams {
		set += "-" + upstreams
	}
	return set
}

// splitSet is setName backwards.
func splitSet(set string) (name, node, kubelet string) {
	kubelet = ours
	if rest, is := strings.CutSuffix(set, "-"+upstreams); is {
		set, kubelet = rest, upstreams
	}
	switch {
	case set == "lin" || set == "win":
		return "conformance", set, kubelet
	case set == sigWindows:
		return set, "win", kubelet
	}
	at := strings.LastIndex(set, "-")
	return set[:at], set[at+1:], kubelet
}

// sets are the names of all results that there can be, in the order of the document.
func sets() []string {
	var out []string
	// A suite has a set for each system and kubelet that it can run with.
	for name, s := range suites {
		for node, can := range map[string]bool{"lin": s.onLinux, "win": s.onWindows} {
			if !can {
				continue
			}
			out = append(out, setName(name, node, ours))
			if s.peer || node == "lin" {
				out = append(out, setName(name, node, upstreams))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// title of a set of results in the document.
// The sets of one suite differ in the name of the nodes.
func title(set string) string {
	name, node, kubelet := splitSet(set)
	nodes := map[string]string{"lin": "Linux nodes", "win": "emulated Windows nodes"}[node]
	if kubelet == upstreams {
		nodes = "Linux nodes with upstream's kubelet"
	}
	switch name {
	case "conformance":
		return strings.ToUpper(nodes[:1]) + nodes[1:]
	case sigWindows:
		return "Upstream's own tests of Windows nodes"
	case "autoscaling":
		return "Autoscaling of pods on " + nodes
	case storageCSI:
		return "Storage drivers on " + nodes
	case storageHostPath:
		return "csi-driver-host-path on " + nodes
	case nodeE2E:
		return "Upstream's node suite on " + nodes
	case dra:
		return "Dynamic resource allocation on " + nodes
	}
	return "Tests of sig-" + name + " on " + nodes
}
