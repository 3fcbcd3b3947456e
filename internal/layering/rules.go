package layering

import (
	"path"
	"slices"
	"strings"
)

// Module is the path of this module; every folder below is relative to it.
const Module = "porthole.dev/porthole"

// rule forbids the packages that from matches to import those that to matches. Both are lists of patterns: a folder or
// import path stands for itself, and with "/..." at its end for all below it too.
type rule struct {
	from, except []string
	to, allow    []string
	// throughOthers: the rule holds for what is imported indirectly as well. throughOurs: only for what packages of
	// this module import, directly or through each other; the standard library reaches everything (fmt imports os).
	throughOthers, throughOurs bool
	reason                     string
}

var products = []string{"kubelet", "proxy", "routes", "ovn", "cni", "join", "web"}

// pure folders compute; they do not act.
var pure = []string{"kubelet/pod/...", "kubelet/admit", "kubelet/evict", "kubelet/volume/paths",
	"kubelet/volume/steps", "proxy/balance", "proxy/service/...",
	"routes/table/...", "routes/fit", "path", "cni/contract", "hns", "internal/winbuild", "emulator/hnsd",
	"emulator/hcsd", "emulator/desired", "emulator/wire", "emulator/dataplane/table", "emulator/dataplane/kernel",
	"emulator/dataplane/rules", "emulator/dataplane/render", "emulator/dataplane/portrules", "join/step",
	"join/preflight", "join/upgrade", "web/model", "test/proxy/lab/expected"}

// effects are packages through which code acts on, or depends on, more than its arguments.
var effects = []string{"os/exec", "net/http", "syscall", "golang.org/x/sys/...", "k8s.io/client-go/...",
	"github.com/vishvananda/...", "github.com/Microsoft/...", "google.golang.org/grpc/..."}

// impure are what a pure package must not use beside effects: files, sockets and name resolution, logs, randomness.
// The clock is part of package time, which pure code needs for durations; TestPureCodeReadsNoClock looks for its
// functions.
var impure = slices.Concat(effects,
	[]string{"os", "io/ioutil", "net", "log/...", "k8s.io/klog/...", "math/rand/...", "crypto/rand"})

func rules() []rule {
	return slices.Concat(folderRules(), libraryRules(), programRules(), clusterRules(), productRules())
}

// folderRules say which folders of ours may import which.
func folderRules() []rule {
	return []rule{
		{from: pure, to: impure, throughOurs: true,
			reason: "this folder is pure: its world comes in as arguments, so that it runs and is tested everywhere"},
		{from: []string{"emulator/..."}, to: []string{"hns/..."}, throughOthers: true,
			reason: "the emulator is an independent oracle: it decodes HNS documents itself and shares nothing with our client code"},
		{from: []string{"emulator/hcsd/..."}, except: []string{"emulator/hcsd/serve"},
			to: []string{"emulator/hcsd/systems", "emulator/hcsd/layers", "emulator/hcsd/silos",
				"emulator/hcsd/credentials", "emulator/hcsd/serve"},
			reason: "each store of hcsd is tested without the others: what it asks of one is an interface of its own, " +
				"which emulator/hcsd/serve connects"},
		{from: []string{"emulator/hnsd/..."}, except: []string{"emulator/hnsd/serve"},
			to: []string{"emulator/hnsd/objects", "emulator/hnsd/carried", "emulator/hnsd/handles",
				"emulator/hnsd/ports", "emulator/hnsd/ipstack", "emulator/hnsd/latency", "emulator/hnsd/serve"},
			reason: "each store of hnsd is tested without the others: what it asks of one is an interface of its own, " +
				"which emulator/hnsd/serve connects"},
		{from: []string{"internal/..."}, except: []string{"internal/layering"},
			to: []string{"cmd/...", "cli/...", "cluster/...", "node/...", "hns/...", "emulator/...", "kubelet/...",
				"proxy/...", "routes/...", "ovn/...", "cni/...", "join/...", "web/..."},
			reason: "arrows point down: internal is below everything else"},
		{from: []string{"test/proxy/lab/..."},
			to: []string{"cmd/...", "cli/...", "cluster/...", "node/...", "hns/...", "kubelet/...", "proxy/...",
				"routes/...", "ovn/...", "cni/...", "join/..."}, throughOthers: true,
			reason: "the lab judges service proxies, ours and upstream's alike; it must not contain their code"},
		{from: []string{"..."}, except: []string{"test/..."}, to: []string{"test/..."},
			reason: "what is below test is for tests and benchmarks: no program contains it"},
		{from: []string{"..."}, except: []string{"internal/testkit/...", "test/...", "hns/hnstest",
			"kubelet/runtime/runtimetest"}, to: []string{"internal/testkit/..."},
			reason: "helpers of tests are for tests and benchmarks: no program contains them"},
		{from: []string{"..."}, except: []string{"cmd/...", "cli/...", "test/..."}, to: []string{"cli/..."},
			reason: "the command line (cli) is used by cmd only"},
		{from: []string{"..."}, except: []string{"cmd/...", "cli/...", "cluster/...", "test/..."},
			to:     []string{"cluster/..."},
			reason: "arrows point down: the local cluster (cluster) is used by cli only"},
		{from: []string{"..."}, except: []string{"cmd/...", "cli/...", "cluster/...", "node/...", "test/..."},
			to:     []string{"node/..."},
			reason: "arrows point down: the wiring of a node's programs (node) is used by cli and cluster only"},
		{from: []string{"..."}, except: []string{"cmd/...", "cli/...", "emulator/...", "test/...", "cluster/..."},
			to:     []string{"emulator/..."},
			reason: "no product knows the emulator: it must work the same on real Windows (cluster, the local cluster, is made of emulated hosts)"},
		{from: []string{"kubelet/...", "proxy/...", "routes/...", "join/..."}, to: []string{"hns/hcn/..."},
			throughOthers: true,
			reason:        "products talk to Windows networking through interfaces that node or cli connects to hns/hcn"},
		{from: []string{"..."}, except: []string{"cli/...", "web/...", "test/..."}, to: []string{"web/..."},
			reason: "the page shows the others; nobody but the command line depends on it"},
	}
}

// libraryRules name those who alone use a library of others.
func libraryRules() []rule {
	return []rule{
		{from: []string{"..."}, except: []string{"internal/kube/...", "internal/apiconn", "internal/networkapi",
			"internal/testkit/...", "test/..."}, to: []string{"k8s.io/client-go/..."},
			reason: "client-go is used by internal/kube only, and by internal/networkapi for programs that stay small: one client and one set of informers per node, behind narrow interfaces (API types are free)"},
		{from: []string{"..."}, except: []string{"hns/hcn/...", "test/..."},
			to:     []string{"github.com/Microsoft/hcsshim/..."},
			reason: "hcsshim is used by hns/hcn only: everybody else speaks our vocabulary of Windows networking"},
		{from: []string{"..."}, except: []string{"routes/bgp/..."}, to: []string{"github.com/osrg/gobgp/..."},
			reason: "GoBGP is used by routes/bgp only"},
		{from: []string{"..."}, except: []string{"kubelet/runtime/...", "kubelet/image/...", "check/probe",
			"internal/testkit/...", "test/..."}, to: []string{"k8s.io/cri-api/..."},
			reason: "CRI is spoken by kubelet/runtime and kubelet/image only, and asked by check/probe"},
		{from: []string{"..."}, except: []string{"kubelet/csi", "internal/testkit/...", "test/..."},
			to:     []string{"github.com/container-storage-interface/..."},
			reason: "the Container Storage Interface is spoken by kubelet/csi only: kubelet/volume decides what is called when"},
		{from: []string{"..."}, except: []string{"internal/registry", "emulator/host/...", "cli/images",
			"internal/testkit/...", "test/..."}, to: []string{"github.com/containerd/containerd/v2/..."},
			reason: "containerd's client is used by the emulated host, and by internal/registry to read registries; a node's programs reach containerd by CRI"},
		{from: []string{"..."}, except: []string{"emulator/dataplane/...", "emulator/lab/...", "emulator/host/...",
			"emulator/hnsd/...", "emulator/openvswitch", "routes/...", "internal/platform/...", "internal/testkit/...",
			"test/..."},
			to:     []string{"github.com/vishvananda/netlink/...", "github.com/google/nftables/..."},
			reason: "kernel networking is touched by the emulator, routes and internal/platform only"},
		{from: []string{"routes/table/..."}, to: []string{"github.com/vishvananda/..."}, throughOthers: true,
			reason: "the route plan must not reach netlink, not even through others"},
	}
}

// programRules keep programs small.
func programRules() []rule {
	return []rule{
		{from: []string{"cmd/..."},
			except: []string{"cmd/porthole", "cmd/kube-proxy", "cmd/porthole-routes", "cmd/porthole-host",
				"cmd/porthole-web"}, to: []string{"cli/...", "node/..."},
			reason: "CNI plugins are started for every pod and stay small"},
		{from: []string{"cmd/kube-proxy"},
			to:    []string{"k8s.io/client-go/kubernetes/...", "kubelet/...", "cluster/...", "node/..."},
			allow: []string{"node/kubeproxy"}, throughOthers: true,
			reason: "the service proxy stays small: every megabyte of its file is one of memory (ADR 2)"},
		{from: []string{"cmd/porthole-routes"},
			to: []string{"k8s.io/client-go/kubernetes/...", "internal/kube", "kubelet/...", "cluster/...",
				"node/..."},
			allow: []string{"node/routes"}, throughOthers: true,
			reason: "the agent of the pod network stays small: every megabyte of its file is one of memory (ADR 2)"},
		{from: []string{"cmd/porthole-web"},
			to: []string{"k8s.io/client-go/kubernetes/...", "github.com/containerd/...", "google.golang.org/grpc/...",
				"internal/kube", "kubelet/...", "cluster/...", "node/..."}, allow: []string{"cluster/inspect"},
			throughOthers: true,
			reason:        "the page's server stays small: every megabyte of its file is one of memory (ADR 2)"},
		{from: []string{"cmd/porthole-host"},
			to: []string{"k8s.io/client-go/...", "github.com/containerd/...", "google.golang.org/grpc/...",
				"kubelet/...", "cluster/...", "node/..."}, throughOthers: true,
			reason: "the daemons of an emulated host stay small: a machine has them for each host (ADR 2)"},
	}
}

// clusterRows are the folders of cluster, the lowest first, as cluster/README.md draws them.
var clusterRows = [][]string{
	{"cluster/supervise", "cluster/inspect", "cluster/install", "cluster/steps", "cluster/containerdconf",
		"cluster/relay", "cluster/probe"},
	{"cluster/layout"},
	{"cluster/config"},
	{"cluster/settings", "cluster/credentials", "cluster/process", "cluster/status"},
	{"cluster/network", "cluster/manifests"},
	{"cluster/preflight", "cluster/plan", "cluster/nodes", "cluster/datapath", "cluster/observe"},
	{"cluster"},
}

// clusterRules let each folder of cluster import only such as are lower.
func clusterRules() (list []rule) {
	for i, row := range clusterRows {
		list = append(list, rule{from: row, to: slices.Concat(clusterRows[i:]...),
			reason: "arrows point down: each part of the local cluster imports only parts of lower rows (cluster/README.md)"})
	}
	return list
}

// productRules keep the products apart from each other and from the emulator.
func productRules() (list []rule) {
	for _, p := range products {
		others := []string{"emulator/..."}
		for _, o := range products {
			if o != p {
				others = append(others, o+"/...")
			}
		}
		list = append(list,
			rule{from: []string{p + "/..."}, to: others, throughOthers: true,
				reason: "products never import each other or the emulator: each can be used, replaced and tested alone"},
			rule{from: []string{"emulator/..."}, to: []string{p + "/..."}, throughOthers: true,
				reason: "the emulator judges the products; it must not contain their code"})
	}
	return list
}

// packageInfo is what the rules look at; paths of our own packages are relative to the module.
type packageInfo struct {
	path    string
	imports []string // direct
	deps    []string // direct and indirect
	ours    []string // direct imports of the package, and of those packages of this module that it reaches
	goos    string
}

// violations applies every rule and words each breach as "a imports b: reason".
func violations(pkgs []packageInfo, rules []rule) []string {
	var found []string
	for _, p := range pkgs {
		for _, r := range rules {
			if !matchesAny(p.path, r.from) || matchesAny(p.path, r.except) {
				continue
			}
			imported := p.imports
			switch {
			case r.throughOthers:
				imported = p.deps
			case r.throughOurs:
				imported = p.ours
			}
			for _, i := range imported {
				if matchesAny(i, r.to) && !matchesAny(i, r.allow) && i != p.path {
					found = append(found, p.path+" imports "+i+" (on "+p.goos+"): "+r.reason)
				}
			}
		}
		if depth := strings.Count(p.path, "/") + 1; depth > 2 && !deepFolder(p.path) {
			found = append(found, p.path+
				": folders have two levels; a third needs a reason in its README and a line in deepFolder")
		}
	}

	slices.Sort(found)
	return slices.Compact(found)
}

// deepFolder names the folders that have a third level.
func deepFolder(p string) bool {
	return matchesAny(p, []string{"bundle/...", "test/...", "tools/...", "emulator/dll/...", "emulator/hnsd/...",
		"emulator/hcsd/...", "emulator/dataplane/...", "hns/hnstest/...", "internal/testkit/...",
		"kubelet/pod/observed", "kubelet/pod/desired", "kubelet/runtime/...", "kubelet/volume/..."})
}

func matchesAny(p string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(p, pattern) })
}

func matches(p, pattern string) bool {
	if pattern == "..." {
		return true
	}
	base, below := strings.CutSuffix(pattern, "/...")
	return path.Clean(p) == base || below && strings.HasPrefix(p, base+"/")
}
