package podnet

import (
	"encoding/json"
	"maps"
	"net/netip"

	"porthole.dev/porthole/hns"
)

// Conf is a CNI configuration: the name of its file and its content.
type Conf struct {
	Name string
	Data []byte
}

// File names of the configurations. Container runtimes take the first file of the folder.
const (
	linuxConfName   = "10-porthole.conflist"
	WindowsConfName = "10-porthole.conf"
	OVNConfName     = "10-porthole.conf" // of the mode ovn on Linux, which has one plugin
)

// Bridge is the Linux bridge of the pods.
const Bridge = "porthole0"

type object = map[string]any

// linuxConf returns the configuration for the standard plugins bridge, portmap and host-local.
func (o Options) linuxConf() (Conf, error) {
	var ranges [][]object
	for _, r := range o.ranges() {
		ranges = append(ranges, []object{{"subnet": r.String(), "gateway": r.Addr().Next().String()}})
	}
	ipam := object{"type": "host-local", "ranges": ranges, "routes": o.defaults()}
	if o.DataDir != "" {
		ipam["dataDir"] = o.DataDir
	}

	bridge := object{
		"type":        "bridge",
		"bridge":      Bridge,
		"isGateway":   true,
		"ipMasq":      false, // outbound NAT has exceptions here: see NAT
		"hairpinMode": true,
		"ipam":        ipam,
	}
	if o.MTU > 0 {
		bridge["mtu"] = o.MTU
	}

	return encode(linuxConfName, object{
		"cniVersion": "1.0.0",
		"name":       NetworkName,
		"plugins": []object{
			bridge,
			{"type": "portmap", "backend": "nftables", "capabilities": object{"portMappings": true}},
		},
	})
}

// defaults are the default routes of pods, one for each family.
func (o Options) defaults() []object {
	list := []object{{"dst": "0.0.0.0/0"}}
	if o.Second.PodCIDR.IsValid() {
		list = append(list, object{"dst": "::/0"})
	}
	return list
}

// windowsConf returns the configuration for win-bridge, ours or upstream's, with host-local. The route policies hand
// traffic to services and to the node's own address to the host's stack; without them pods reach neither.
func (o Options) windowsConf() (Conf, error) {
	toHost := []netip.Prefix{o.Services.Masked(), netip.PrefixFrom(o.Node, o.Node.BitLen())}
	if o.Second.PodCIDR.IsValid() {
		toHost = append(toHost, o.Second.Services.Masked(), netip.PrefixFrom(o.Second.Node, o.Second.Node.BitLen()))
	}
	conf := o.windowsPlugin("win-bridge", append(o.Exceptions(), o.exceptions6()...), toHost...)
	conf["ipam"] = o.windowsIPAM()
	return encode(WindowsConfName, conf)
}

// overlayConf returns the configuration for win-overlay, ours or upstream's, with the policies that sig-windows-tools
// gives pods on flannel's overlay. Other than on a bridge, packets to the nodes leave with the node's address: the
// segment of the nodes is not in the overlay. The gateway of pods is the network's.
func (o Options) overlayConf() (Conf, error) {
	conf := o.windowsPlugin("win-overlay", []netip.Prefix{o.Cluster.Masked(), o.Services.Masked()}, o.Services.Masked())
	conf["ipam"] = object{
		"type":       "host-local",
		"subnet":     o.PodCIDR.Masked().String(),
		"rangeStart": o.FirstPod().String(),
		"routes":     []object{{"dst": "0.0.0.0/0"}},
	}
	conf["endpointMacPrefix"] = "0E-2A" // as flannel and Calico write it, and the plugins' default
	return encode(WindowsConfName, conf)
}

// windowsPlugin returns what the configurations of Windows plugins have in common, all but "ipam": pods reach
// exceptions with their own address, and what is in toHost through the host's stack.
func (o Options) windowsPlugin(plugin string, exceptions []netip.Prefix, toHost ...netip.Prefix) object {
	var texts []string
	for _, e := range exceptions {
		texts = append(texts, e.String())
	}
	policies := []object{endpointPolicy("OutBoundNAT", object{"Exceptions": texts})}
	for _, p := range toHost {
		policies = append(policies,
			endpointPolicy("SDNRoute", object{"DestinationPrefix": p.String(), "NeedEncap": true}))
	}

	conf := object{
		"cniVersion":   "1.0.0",
		"name":         NetworkName,
		"type":         plugin,
		"apiVersion":   2,
		"loopbackDSR":  true, // a pod reaches itself through its own service
		"capabilities": object{"portMappings": true, "dns": true},
		// Programs of the node reach host ports of its pods as well. Upstream's plugins do not know the field.
		"optionalFlags": object{"localRoutedPortMapping": true},
		"policies":      policies,
	}
	if len(o.DNS) > 0 {
		conf["dns"] = object{"nameservers": o.DNS, "search": o.Search}
	}
	return conf
}

// windowsIPAM configures host-local. A single range is written inline, as in upstream's examples.
func (o Options) windowsIPAM() object {
	var sets [][]object
	for _, r := range o.ranges() {
		host := hns.Subnet{Prefix: r}.HostAddr()
		sets = append(sets,
			[]object{{"subnet": r.String(), "rangeStart": host.Next().String(), "gateway": host.String()}})
	}
	ipam := object{"type": "host-local", "routes": o.defaults()}
	if len(sets) > 1 {
		ipam["ranges"] = sets
		return ipam
	}
	maps.Copy(ipam, sets[0][0])
	return ipam
}

func endpointPolicy(kind string, settings object) object {
	return object{"name": "EndpointPolicy", "value": object{"Type": kind, "Settings": settings}}
}

func encode(name string, v any) (Conf, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	return Conf{Name: name, Data: append(data, '\n')}, err
}
