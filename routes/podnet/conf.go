package podnet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// File names of the configurations, first in their folders' order.
const (
	LinuxConfName   = "10-porthole.conflist"
	WindowsConfName = "10-porthole.conf"
)

// Bridge is the Linux bridge of the pods.
const Bridge = "porthole0"

type object = map[string]any

// LinuxConf is the configuration for the standard plugins bridge, portmap and host-local.
func (o Options) LinuxConf() ([]byte, error) {
	ipam := object{
		"type":   "host-local",
		"ranges": [][]object{{{"subnet": o.PodCIDR.Masked().String(), "gateway": o.Gateway().String()}}},
		"routes": []object{{"dst": "0.0.0.0/0"}},
	}
	if o.DataDir != "" {
		ipam["dataDir"] = o.DataDir
	}
	return encode(object{
		"cniVersion": "1.0.0",
		"name":       NetworkName,
		"plugins": []object{
			{
				"type":        "bridge",
				"bridge":      Bridge,
				"isGateway":   true,
				"ipMasq":      false, // outbound NAT has exceptions here: see NAT
				"hairpinMode": true,
				"ipam":        ipam,
			},
			{"type": "portmap", "backend": "nftables", "capabilities": object{"portMappings": true}},
		},
	})
}

// WindowsConf is the configuration for win-bridge, ours or upstream's, with host-local. The route policies hand
// traffic to services and to the node's own address to the host's stack; without them pods reach neither.
func (o Options) WindowsConf() ([]byte, error) {
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
	return encode(conf)
}

func endpointPolicy(kind string, settings object) object {
	return object{"name": "EndpointPolicy", "value": object{"Type": kind, "Settings": settings}}
}

func encode(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	return append(data, '\n'), err
}

// WriteConf puts data into dir/name, in one step so that no reader sees half of it, and tells whether it was another
// before.
func WriteConf(dir, name string, data []byte) (changed bool, err error) {
	path := filepath.Join(dir, name)
	have, err := os.ReadFile(path)
	if err == nil && bytes.Equal(have, data) {
		return false, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("writing CNI configuration: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, fmt.Errorf("writing CNI configuration: %w", err)
	}
	// The name's end keeps container runtimes from reading it.
	temp := path + ".new"
	if err := os.WriteFile(temp, data, 0o644); err != nil {
		return false, fmt.Errorf("writing CNI configuration: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return false, fmt.Errorf("writing CNI configuration: %w", err)
	}
	return true, nil
}
