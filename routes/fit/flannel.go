package fit

import (
	"encoding/json"
	"fmt"
	"net/netip"
)

// What Windows asks of a VXLAN: HNS refuses a smaller virtual subnet id, and the port can be changed only with the
// feature VxlanPort, which flannel does not use (flannel, Documentation/backends.md, "VXLAN", notes for Windows).
const (
	leastVNI    = 4096
	windowsPort = 4789
)

// What flannel takes on Linux where its configuration says nothing (flannel, pkg/backend/vxlan; the port is the
// kernel's default).
const (
	flannelVNI  = 1
	flannelPort = 8472
)

// annotation of a node by flannel.
const (
	flannelType = "flannel.alpha.coreos.com/backend-type"
	flannelData = "flannel.alpha.coreos.com/backend-data"
)

// netConf is net-conf.json of flannel.
type netConf struct {
	Network     string
	IPv6Network string
	EnableIPv4  *bool
	EnableIPv6  bool
	Backend     struct {
		Type               string
		VNI, Port          int
		DirectRouting, GBP bool
	}
}

func (c Cluster) hasFlannel() bool { return c.flannelMap() != "" }

// flannelMap is the name of the ConfigMap that has net-conf.json, or "".
func (c Cluster) flannelMap() string {
	for _, name := range []string{flannelConfig, flannelConfigOld, canalConfig} {
		if c.data(name, "net-conf.json") != "" {
			return name
		}
	}
	return ""
}

// flannel advises about a cluster of flannel and returns the range of its pods.
func (a *Advice) flannel(c Cluster, pods netip.Prefix) netip.Prefix {
	name := c.flannelMap()
	var conf netConf
	if err := json.Unmarshal([]byte(c.data(name, "net-conf.json")), &conf); err != nil {
		a.found("flannel: ConfigMap " + name)
		a.Why = fmt.Sprintf("net-conf.json in ConfigMap %s is not JSON: %v", name, err)
		a.change("mend net-conf.json; flanneld does not start with it either")
		return pods
	}
	if p := firstFour(conf.Network); p.IsValid() {
		pods = p
	}
	for _, w := range c.Workloads {
		if pluginOf(w) == "flannel" {
			a.onlyLinux(w)
		}
	}

	a.found(fmt.Sprintf("flannel: ConfigMap %s: backend %s, pods %s", name,
		or(conf.Backend.Type, "udp (flannel's default)"), or(conf.Network, "-")))
	if conf.EnableIPv4 != nil && !*conf.EnableIPv4 || conf.Network == "" {
		a.Why = "flannel serves IPv6 only here, and Windows nodes need IPv4"
		a.change("give flannel a Network and \"EnableIPv4\": true beside IPv6Network, and the nodes a second pod range")
		return pods
	}
	a.backend(conf)
	a.flannelNodes(c, conf)
	return pods
}

// backend decides by flannel's backend.
func (a *Advice) backend(conf netConf) {
	b := conf.Backend
	switch b.Type {
	case "host-gw":
		a.Mode = hostGateway
		a.Why = "flanneld routes to each node's own address, and so do we; all nodes must be on one segment"
	case "vxlan":
		a.flannelVXLAN(conf)
	case "alloc":
		a.Mode = topOfRack
		a.Why = "flannel's backend alloc makes no routes: routers outside of the cluster have them"
	case "aws-vpc", "gce", "ali-vpc", "tencent-vpc":
		a.Mode = topOfRack
		a.Why = "flannel's backend " + b.Type +
			" keeps the routes in the cloud's router; nodes need none"
		a.note(
			"flanneld makes the cloud's route of a node on that node; for Windows nodes somebody else has to: `porthole routes --print-router=ip` lists them")
	default:
		a.Why = "Windows has no counterpart of flannel's backend " + or(b.Type, "udp, which is the default,")
		a.change(`nodes on one segment: "Backend": {"Type": "host-gw"}`)
		a.change(fmt.Sprintf(`else: "Backend": {"Type": "vxlan", "VNI": %d, "Port": %d}`, leastVNI, windowsPort))
		a.change(
			"then restart flanneld on every node (kubectl -n kube-flannel rollout restart daemonset kube-flannel-ds)")
	}
}

// flannelVXLAN decides about flannel's VXLAN, which Windows can join with some settings only.
func (a *Advice) flannelVXLAN(conf netConf) {
	b := conf.Backend
	vni, port := b.VNI, b.Port
	if vni == 0 {
		vni = flannelVNI
	}
	if port == 0 {
		port = flannelPort
	}
	a.found(fmt.Sprintf("flannel's VXLAN: VNI %d, port %d, DirectRouting %v", vni, port, b.DirectRouting))

	var wrong []string
	if vni < leastVNI {
		wrong = append(wrong, fmt.Sprintf("VNI %d is below %d, the least that HNS takes", vni, leastVNI))
		a.change(fmt.Sprintf(`"VNI": %d`, leastVNI))
	}
	if port != windowsPort {
		wrong = append(wrong, fmt.Sprintf("port %d is not %d, the only one that Windows uses", port, windowsPort))
		a.change(fmt.Sprintf(`"Port": %d`, windowsPort))
	}
	if b.DirectRouting {
		wrong = append(wrong,
			"with DirectRouting Linux nodes send packets for pods of Windows nodes without VXLAN, where HNS does not take them")
		a.change(`"DirectRouting": false`)
	}
	if b.GBP {
		wrong = append(wrong, "HNS does not know group based policy (GBP)")
		a.change(`"GBP": false`)
	}
	if len(wrong) == 0 {
		a.Mode = vxlan
		a.Why = "flannel's VXLAN has the VNI and the port that Windows can use"
		a.Flags = []string{fmt.Sprintf("--vxlan-vni=%d", vni)}
		a.note("pods have an MTU of 50 bytes less than the nodes; open UDP 4789 between the nodes")
		return
	}

	a.Why = "Windows cannot join this VXLAN: "
	for i, w := range wrong {
		if i > 0 {
			a.Why += "; "
		}
		a.Why += w
	}
	for i := range a.Change {
		a.Change[i] = "in the Backend of net-conf.json: " + a.Change[i]
	}
	a.change(
		"then restart flanneld on every node; while old and new settings are side by side, pods of different nodes do not reach each other")
}

// flannelNodes compares what flanneld wrote on nodes with the configuration: it reads that only when it starts.
func (a *Advice) flannelNodes(c Cluster, conf netConf) {
	for _, n := range c.Nodes {
		kind := n.Annotations[flannelType]
		if kind == "" {
			continue
		}
		if kind != conf.Backend.Type {
			a.note(fmt.Sprintf("flanneld on node %s still uses backend %s: restart it", n.Name, kind))
			continue
		}
		var data struct{ VNI int }
		if json.Unmarshal([]byte(n.Annotations[flannelData]), &data) != nil || kind != "vxlan" || data.VNI == 0 {
			continue
		}
		if want := max(conf.Backend.VNI, flannelVNI); data.VNI != want {
			a.note(fmt.Sprintf("flanneld on node %s still uses VNI %d, not %d: restart it", n.Name, data.VNI, want))
		}
	}
}
