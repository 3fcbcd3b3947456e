package contract_test

import (
	"fmt"
	"strings"

	"porthole.dev/porthole/cni/contract"
)

// Policies of HNS's first interface become those of HCN, and what a configuration has that nobody reads is named.
func ExampleParse() {
	c, err := contract.Parse([]byte(`{
		"cniVersion": "1.0.0", "name": "porthole", "type": "win-bridge", "hairpin": true,
		"policies": [{"name": "EndpointPolicy",
			"value": {"Type": "OutBoundNAT", "ExceptionList": ["10.244.0.0/16"]}}]
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range c.Policies {
		fmt.Println(p.Type, string(p.Settings))
	}
	fmt.Println("nobody reads", c.Unknown)
	// Output:
	// OutBoundNAT {"Exceptions":["10.244.0.0/16"]}
	// nobody reads [hairpin]
}

// What HNS would take and make nonsense of is refused, with the field and its value.
func ExampleParse_refused() {
	_, err := contract.Parse([]byte(`{"name": "porthole", "type": "win-bridge", "policies": [{"name": "EndpointPolicy",
		"value": {"Type": "SDNRoute", "Settings": {"DestinationPrefix": "10.96.0.0/33"}}}]}`))
	_, reason, _ := strings.Cut(err.Error(), "}}: ")
	fmt.Println(reason)
	// Output:
	// DestinationPrefix "10.96.0.0/33" is not a range such as 10.96.0.0/16
}
