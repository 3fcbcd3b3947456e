// Command calls makes the calls to HNS that ADD and DEL of win-bridge.exe cannot do without, through hcsshim, and
// nothing else: no configuration is read, no address is chosen, nothing is locked or checked. TestPluginSpeed takes
// its time as the floor. Any other verb of CNI does nothing.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/Microsoft/hcsshim/hcn"
)

const name = "calls"

func main() {
	do := map[string]func(namespace string) error{"ADD": add, "DEL": remove}[os.Getenv("CNI_COMMAND")]
	if do == nil {
		return
	}
	if err := do(os.Getenv("CNI_NETNS")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// add finds the network, sees that the endpoint is not there yet, makes it, puts it into the namespace, and reads it
// back.
func add(namespace string) error {
	network, err := hcn.GetNetworkByName("porthole")
	if err != nil {
		return err
	}
	if _, err := hcn.GetEndpointByName(name); !hcn.IsNotFoundError(err) {
		return fmt.Errorf("endpoint %s: %v, want that it is not there", name, err)
	}
	endpoint := &hcn.HostComputeEndpoint{
		Name: name, SchemaVersion: hcn.V2SchemaVersion(),
		IpConfigurations: []hcn.IpConfig{{IpAddress: "10.244.7.200", PrefixLength: 24}},
		Routes:           []hcn.Route{{NextHop: "10.244.7.2", DestinationPrefix: "0.0.0.0/0"}},
		Policies: []hcn.EndpointPolicy{
			{Type: hcn.OutBoundNAT, Settings: json.RawMessage(`{"Exceptions": ["10.244.0.0/16", "10.96.0.0/16"]}`)},
			{Type: hcn.SDNRoute, Settings: json.RawMessage(`{"DestinationPrefix": "10.96.0.0/16", "NeedEncap": true}`)},
		},
	}

	if endpoint, err = network.CreateEndpoint(endpoint); err != nil {
		return err
	}
	if err := hcn.AddNamespaceEndpoint(namespace, endpoint.Id); err != nil {
		return err
	}
	_, err = hcn.GetEndpointByID(endpoint.Id)
	return err
}

// remove takes the endpoint out of the namespace and deletes it.
func remove(namespace string) error {
	endpoint, err := hcn.GetEndpointByName(name)
	if err != nil {
		return err
	}
	if err := hcn.RemoveNamespaceEndpoint(namespace, endpoint.Id); err != nil {
		return err
	}
	return endpoint.Delete()
}
