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
		Ipams: []hcn.Ipam{{Type: "Static",
			Subnets: []hcn.Subnet{{IpAddressPrefix: prefix,
				Routes: []hcn.Route{{NextHop: gateway, DestinationPrefix: "0.0.0.0/0"}}}}}},
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
	endpoint := &hcn.HostComputeEndpoint{Name: kind + "_ep", IpConfigurations: []hcn.IpConfig{{IpAddress: address}},
		SchemaVersion: hcn.V2SchemaVersion()}
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

// wrong TYPE makes calls that HNS must refuse, about a network of the type that holds an attached endpoint. It prints
// the code of each answer.
func wrong(args []string) error {
	kind := args[0]
	elsewhere := network(kind, "172.29.0.0/24", "172.29.0.1")
	settings, err := json.Marshal(hcn.NetAdapterNameNetworkPolicySetting{NetworkAdapterName: "vEthernet (Ethernet)"})
	if err != nil {
		return err
	}
	elsewhere.Policies = []hcn.NetworkPolicy{{Type: hcn.NetAdapterName, Settings: settings}}
	_, err = elsewhere.Create()
	printCode("an adapter that is none", err)

	_, err = network(kind, "172.29.0.0/99", "172.29.0.1").Create()
	printCode("a subnet that is none", err)
	_, err = network(kind+"x", "172.29.0.0/24", "172.29.0.1").Create()
	printCode("a type that is none", err)
	_, err = hcn.GetNetworkByName(kind + " of nobody")
	printCode("an unknown name", err)

	have, err := hcn.GetNetworkByName(kind)
	if err != nil {
		return err
	}
	printCode("deletion with an attached endpoint", have.Delete())
	_, err = have.CreateEndpoint(&hcn.HostComputeEndpoint{IpConfigurations: []hcn.IpConfig{{IpAddress: "192.0.2.7"}},
		SchemaVersion: hcn.V2SchemaVersion()})
	printCode("an address of elsewhere", err)
	return nil
}

// printCode prints how a call was answered: "not found", or the HRESULT that hcsshim's error has in its text.
func printCode(call string, err error) {
	text := "no error"
	switch {
	case hcn.IsNotFoundError(err):
		text = "not found"
	case err != nil:
		text = code.FindString(err.Error())
	}
	fmt.Printf("%s: %s\n", call, text)
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
