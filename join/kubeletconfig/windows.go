// Package kubeletconfig turns the kubelet's configuration of a cluster, which is written for Linux nodes, into that of
// a Windows node. It is pure, and reports each change.
package kubeletconfig

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// Node is what the configuration depends on beside the cluster's.
type Node struct {
	Root string // folder that stands for / of a Linux node, such as C:\; required
	// CRI of the node's container runtime, such as npipe:////./pipe/containerd-containerd; required
	RuntimeEndpoint string
}

// Change is one field that differs from the cluster's configuration.
type Change struct {
	Field  string `json:"field"` // with the names of the objects around it, such as authentication.x509.clientCAFile
	From   any    `json:"from,omitempty"`
	To     any    `json:"to,omitempty"` // nil: the field was removed
	Reason string `json:"reason"`
}

// String returns the change as a line for users.
func (c Change) String() string {
	from, _ := json.Marshal(c.From) // of values that came from JSON
	to, _ := json.Marshal(c.To)
	switch {
	case c.To == nil:
		return fmt.Sprintf("%s: %s removed: %s", c.Field, from, c.Reason)
	case c.From == nil:
		return fmt.Sprintf("%s: %s added: %s", c.Field, to, c.Reason)
	}
	return fmt.Sprintf("%s: %s changed to %s: %s", c.Field, from, to, c.Reason)
}

// Reasons of changes.
const (
	linuxOnly    = "Windows has no such setting"
	cgroups      = "Windows has no cgroups"
	managers     = "the policies for processors and memory are for Linux nodes"
	iptables     = "Windows has no iptables"
	swap         = "Windows nodes have a page file"
	rooted       = "paths of Windows nodes begin with a drive"
	hostDNS      = "a Windows node has no resolv.conf: Host takes the DNS servers of its adapters"
	ownRuntime   = "the runtime of this node listens there"
	leastMemory  = "Windows Server itself needs more free memory than a Linux node"
	linuxSignals = "Windows has no inodes and no limit on processes"
)

// removed are the fields that a Windows node cannot have, with the reason. The kubelet of Windows refuses some of them
// (singleProcessOOMKill, userNamespaces) and ignores the others.
var removed = map[string]string{
	"cgroupDriver": cgroups, "cgroupRoot": cgroups, "cgroupsPerQOS": cgroups, "enforceNodeAllocatable": cgroups,
	"failCgroupV1":   cgroups,
	"kubeletCgroups": cgroups, "kubeReservedCgroup": cgroups, "qosReserved": cgroups, "systemCgroups": cgroups,
	"systemReservedCgroup": cgroups,
	"cpuCFSQuota":          cgroups, "cpuCFSQuotaPeriod": cgroups, "memoryThrottlingFactor": cgroups,
	"memoryReservationPolicy": cgroups,
	"kernelMemcgNotification": cgroups, "singleProcessOOMKill": cgroups,

	"cpuManagerPolicy": managers, "cpuManagerPolicyOptions": managers, "cpuManagerReconcilePeriod": managers,
	"memoryManagerPolicy": managers,
	"reservedMemory":      managers, "reservedSystemCPUs": managers, "topologyManagerPolicy": managers,
	"topologyManagerPolicyOptions": managers,
	"topologyManagerScope":         managers,

	"failSwapOn": swap, "memorySwap": swap,
	"iptablesDropBit": iptables, "iptablesMasqueradeBit": iptables, "makeIPTablesUtilChains": iptables,
	"allowedUnsafeSysctls": linuxOnly, "oomScoreAdj": linuxOnly, "podPidsLimit": linuxOnly,
	"protectKernelDefaults": linuxOnly,
	"seccompDefault":        linuxOnly, "userNamespaces": linuxOnly,
}

// paths are the fields that name files and folders.
var paths = []string{"authentication.x509.clientCAFile", "podLogsDir", "staticPodPath", "tlsCertFile",
	"tlsPrivateKeyFile", "volumePluginDir"}

// signals of evictions that only Linux nodes have.
var signals = []string{"nodefs.inodesFree", "imagefs.inodesFree", "containerfs.inodesFree", "pid.available"}

// minMemory is upstream's default of evictionHard for memory.available on Windows.
const minMemory = "500Mi"

// ForWindows returns the configuration for a Windows node, as YAML, and what differs from text. Fields that it does
// not know stay as they are. A configuration that fits already is returned without changes. The error is for a text
// that is no KubeletConfiguration.
func ForWindows(text []byte, n Node) (out []byte, changes []Change, err error) {
	if n.Root == "" || n.RuntimeEndpoint == "" {
		return nil, nil, errors.New(
			"converting the kubelet's configuration: root folder and endpoint of the runtime are required")
	}
	c := converter{node: n}
	if err := yaml.Unmarshal(text, &c.doc); err != nil {
		return nil, nil, fmt.Errorf("reading the cluster's kubelet configuration: %w", err)
	}
	if kind, _ := c.doc["kind"].(string); kind != "KubeletConfiguration" {
		return nil, nil, fmt.Errorf(
			"reading the cluster's kubelet configuration: its kind is %q, not KubeletConfiguration", kind)
	}

	for _, field := range slices.Sorted(maps.Keys(removed)) {
		c.set(field, nil, removed[field])
	}
	for _, field := range paths {
		c.path(field)
	}
	c.runtime()
	c.resolver()
	c.evictions()

	slices.SortFunc(c.changes, func(a, b Change) int { return cmp.Compare(a.Field, b.Field) })
	out, err = yaml.Marshal(c.doc)
	return out, c.changes, err
}

// converter changes one configuration.
type converter struct {
	node    Node
	doc     map[string]any
	changes []Change
}

// object returns the object that holds a field, nil if there is none, and the field's own name. With create it makes
// the object.
func (c *converter) object(field string, create bool) (holder map[string]any, name string) {
	holder = c.doc
	parts := strings.Split(field, ".")
	for _, part := range parts[:len(parts)-1] {
		below, ok := holder[part].(map[string]any)
		if !ok && create {
			below = map[string]any{}
			holder[part] = below
		} else if !ok {
			return nil, ""
		}
		holder = below
	}
	return holder, parts[len(parts)-1]
}

// get returns the value of a field, nil if it is not set.
func (c *converter) get(field string) any {
	holder, name := c.object(field, false)
	return holder[name]
}

// set gives a field another value and reports that. nil removes it.
func (c *converter) set(field string, to any, reason string) {
	holder, name := c.object(field, to != nil)
	from, given := holder[name]
	if !given && to == nil || given && from == to {
		return
	}
	if to == nil {
		delete(holder, name)
	} else {
		holder[name] = to
	}
	c.changes = append(c.changes, Change{field, from, to, reason})
}

// path puts the root in front of a path of Linux. Others, such as C:\x or x, stay.
func (c *converter) path(field string) {
	text, _ := c.get(field).(string)
	if text == "" && field == "podLogsDir" { // the kubelet's default is a path of Linux too
		text = "/var/log/pods"
	}
	if !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") {
		return
	}
	c.set(field, strings.TrimRight(c.node.Root, `\/`)+strings.ReplaceAll(strings.TrimRight(text, "/"), "/", `\`),
		rooted)
}

// runtime names the endpoint of this node's runtime. An image service on a socket of Linux is that runtime too.
func (c *converter) runtime() {
	c.set("containerRuntimeEndpoint", c.node.RuntimeEndpoint, ownRuntime)
	if text, _ := c.get("imageServiceEndpoint").(string); text != "" && !strings.HasPrefix(text, "npipe:") &&
		!strings.HasPrefix(text, "tcp:") {
		c.set("imageServiceEndpoint", nil, ownRuntime)
	}
}

// resolver sets the source of DNS servers of pods with the policy Default. "" means that they get none, and stays.
func (c *converter) resolver() {
	if text, isText := c.get("resolvConf").(string); !isText || text != "" {
		c.set("resolvConf", "Host", hostDNS)
	}
}

// evictions removes signals that Windows does not have. It raises the threshold of memory if that is an amount below
// minMemory. A percentage stays, and so does a missing threshold.
func (c *converter) evictions() {
	for _, object := range []string{"evictionHard", "evictionSoft", "evictionSoftGracePeriod",
		"evictionMinimumReclaim"} {
		thresholds, _ := c.doc[object].(map[string]any)
		for _, signal := range signals {
			if from, given := thresholds[signal]; given {
				delete(thresholds, signal)
				c.changes = append(c.changes, Change{object + "." + signal, from, nil, linuxSignals})
			}
		}
	}

	hard, _ := c.doc["evictionHard"].(map[string]any)
	from, _ := hard["memory.available"].(string)
	if amount, err := resource.ParseQuantity(from); err == nil && amount.Cmp(resource.MustParse(minMemory)) < 0 {
		hard["memory.available"] = minMemory
		c.changes = append(c.changes, Change{"evictionHard.memory.available", from, minMemory, leastMemory})
	}
}
