// Command networks makes and deletes HNS networks of a type with one endpoint, through hcsshim.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/Microsoft/hcsshim/hcn"
)

func main() {
	do := map[string]func(args []string) error{"add": add, "wrong": wrong, "delete": remove}[os.Args[1]]
	if err := do(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func network(kind, prefix, gateway string) *hcn.HostComputeNetwork {
	return &hcn.HostComputeNetwork{
		Name: kind, Type: hcn.NetworkType(kind), SchemaVersion: hcn.V2SchemaVersion(),
		Ipams: []hcn.Ipam{{Type: "Static", Subnets: []hcn.Subnet{{IpAddressPrefix: prefix, Routes: []hcn.Route{{NextHop: gateway, DestinationPrefix: "0.0.0.0/0"}}}}}},
	}
}

// add TYPE PREFIX GATEWAY ADDRESS NAMESPACE makes a network of a type and an endpoint in a namespace.
func add(args []string) error {
	kind, address, namespace := args[0], args[3], args[4]
	made, err := network(kind, args[1], args[2]).Create()
	if err != nil {
		return err
	}
	listed, err := hcn.GetNetworkByName(kind)
	if err != nil || listed.Id != made.Id || string(listed.Type) != kind {
		return fmt.Errorf("listed as %+v: %v", listed, err)
	}
	endpoint := &hcn.HostComputeEndpoint{Name: kind + "_ep", IpConfigurations: []hcn.IpConfig{{IpAddress: address}}, SchemaVersion: hcn.V2SchemaVersion()}
	if kind == string(hcn.NAT) {
		settings, err := json.Marshal(hcn.PortMappingPolicySetting{Protocol: 6, InternalPort: 80, ExternalPort: 8080})
		if err != nil {
			return err
		}
		endpoint.Policies = []hcn.EndpointPolicy{{Type: hcn.PortMapping, Settings: settings}}
	}
	if endpoint, err = made.CreateEndpoint(endpoint); err != nil {
		return err
	}
	return endpoint.NamespaceAttach(namespace)
}

var code = regexp.MustCompile(`0x[0-9a-f]+`)

// wrong TYPE prints the codes that calls about a network of the type are answered which cannot be right, while it holds an attached
// endpoint.
func wrong(args []string) error {
	kind := args[0]
	say := func(what string, err error) {
		text := "no error"
		if err != nil {
			text = code.FindString(err.Error())
		}
		if hcn.IsNotFoundError(err) {
			text = "not found"
		}
		fmt.Printf("%s: %s\n", what, text)
	}
	elsewhere := network(kind, "172.29.0.0/24", "172.29.0.1")
	settings, err := json.Marshal(hcn.NetAdapterNameNetworkPolicySetting{NetworkAdapterName: "vEthernet (Ethernet)"})
	if err != nil {
		return err
	}
	elsewhere.Policies = []hcn.NetworkPolicy{{Type: hcn.NetAdapterName, Settings: settings}}
	_, err = elsewhere.Create()
	say("an adapter that is none", err)
	_, err = network(kind, "172.29.0.0/99", "172.29.0.1").Create()
	say("a subnet that is none", err)
	_, err = network(kind+"x", "172.29.0.0/24", "172.29.0.1").Create()
	say("a type that is none", err)
	_, err = hcn.GetNetworkByName(kind + " of nobody")
	say("an unknown name", err)
	have, err := hcn.GetNetworkByName(kind)
	if err != nil {
		return err
	}
	say("deletion with an attached endpoint", have.Delete())
	_, err = have.CreateEndpoint(&hcn.HostComputeEndpoint{IpConfigurations: []hcn.IpConfig{{IpAddress: "192.0.2.7"}}, SchemaVersion: hcn.V2SchemaVersion()})
	say("an address of elsewhere", err)
	return nil
}

// remove TYPE NAMESPACE takes the endpoint out of its namespace and deletes it and the network.
func remove(args []string) error {
	endpoint, err := hcn.GetEndpointByName(args[0] + "_ep")
	if err != nil {
		return err
	}
	have, err := hcn.GetNetworkByName(args[0])
	if err != nil {
		return err
	}
	if err := errors.Join(endpoint.NamespaceDetach(args[1]), endpoint.Delete(), have.Delete()); err != nil {
		return err
	}
	if _, err = hcn.GetNetworkByName(args[0]); !hcn.IsNotFoundError(err) {
		return fmt.Errorf("after its deletion: %v", err)
	}
	return nil
}
