// Command hostprobe is a Windows program for the test of `porthole host`: it uses HCN as any node program does.
//
//	hostprobe network NAME PREFIX GATEWAY      makes an L2Bridge network
//	hostprobe list                             prints the names of all networks
//	hostprobe pod NETWORK ADDRESS              makes a namespace with an endpoint and prints its GUID
//	hostprobe echo                             copies input to output, its arguments to standard error
//	hostprobe exit CODE
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/Microsoft/hcsshim/hcn"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(verb string, args []string) error {
	switch verb {
	case "network":
		network := &hcn.HostComputeNetwork{Name: args[0], Type: hcn.L2Bridge, SchemaVersion: hcn.V2SchemaVersion(),
			Ipams: []hcn.Ipam{{Type: "Static", Subnets: []hcn.Subnet{{IpAddressPrefix: args[1],
				Routes: []hcn.Route{{NextHop: args[2], DestinationPrefix: "0.0.0.0/0"}}}}}}}
		_, err := network.Create()
		return err
	case "list":
		networks, err := hcn.ListNetworks()
		for _, n := range networks {
			fmt.Println(n.Name)
		}
		return err
	case "pod":
		return pod(args[0], args[1])
	case "echo":
		fmt.Fprint(os.Stderr, strings.Join(args, "|"))
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	case "exit":
		code, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		os.Exit(code)
	}
	return fmt.Errorf("unknown verb %s", verb)
}

func pod(network, address string) error {
	n, err := hcn.GetNetworkByName(network)
	if err != nil {
		return err
	}
	namespace, err := hcn.NewNamespace(hcn.NamespaceTypeGuest).Create()
	if err != nil {
		return err
	}
	endpoint := &hcn.HostComputeEndpoint{Name: address, SchemaVersion: hcn.V2SchemaVersion(),
		IpConfigurations: []hcn.IpConfig{{IpAddress: address, PrefixLength: 24}},
		Routes:           n.Ipams[0].Subnets[0].Routes}
	if endpoint, err = n.CreateEndpoint(endpoint); err != nil {
		return err
	}
	if err := hcn.AddNamespaceEndpoint(namespace.Id, endpoint.Id); err != nil {
		return err
	}
	fmt.Println(namespace.Id)
	return nil
}
