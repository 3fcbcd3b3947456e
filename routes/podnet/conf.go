package podnet

import "encoding/json"

// Conf is a CNI configuration: the name of its file and its content.
type Conf struct {
	Name string
	Data []byte
}

// File names of the configurations. Container runtimes take the first file of the folder.
const (
	linuxConfName   = "10-porthole.conflist"
	WindowsConfName = "10-porthole.conf"
)

// Bridge is the Linux bridge of the pods.
const Bridge = "porthole0"

type object = map[string]any

// linuxConf returns the configuration for the standard plugins bridge, portmap and host-local.
func (o Options) linuxConf() (Conf, error) {
	ipam := object{
		"type":   "host-local",
		"ranges": [][]object{{{"subnet": o.PodCIDR.Masked().String(), "gateway": o.Gateway().String()}}},
		"routes": []object{{"dst": "0.0.0.0/0"}},
	}
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

// windowsConf returns the configuration for win-bridge, ours or upstream's, with host-local. The route policies hand traffic
// to services and to the node's own address to the host's stack; without them pods reach neither.
func (o Options) windowsConf() (Conf, error) {
	var exceptions []string
	for _, e := range o.Exceptions() {
		exceptions = append(exceptions, e.String())
	}
	policies := []object{
		endpointPolicy("OutBoundNAT", object{"Exceptions": exceptions}),
		endpointPolicy("SDNRoute", object{"DestinationPrefix": o.Services.Masked().String(), "NeedEncap": true}),
		endpointPolicy("SDNRoute", object{"DestinationPrefix": o.Node.String() + "/32", "NeedEncap": true}),
	}

	conf := object{
		"cniVersion":   "1.0.0",
		"name":         NetworkName,
		"type":         "win-bridge",
		"apiVersion":   2,
		"loopbackDSR":  true, // a pod reaches itself through its own service
		"capabilities": object{"portMappings": true, "dns": true},
		"ipam": object{
			"type":       "host-local",
			"subnet":     o.PodCIDR.Masked().String(),
			"rangeStart": o.FirstPod().String(),
			"gateway":    o.HostAddr().String(),
			"routes":     []object{{"dst": "0.0.0.0/0"}},
		},
		"policies": policies,
	}
	if len(o.DNS) > 0 {
		conf["dns"] = object{"nameservers": o.DNS, "search": o.Search}
	}
	return encode(WindowsConfName, conf)
}

func endpointPolicy(kind string, settings object) object {
	return object{"name": "EndpointPolicy", "value": object{"Type": kind, "Settings": settings}}
}

func encode(name string, v any) (Conf, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	return Conf{Name: name, Data: append(data, '\n')}, err
}
