package platform

// Uplink is an address of this host and facts about its interface by which the node's address is chosen.
type Uplink struct {
	HostAddress
	// Default reports whether a default route of the address's family leaves through the interface. Metric is then the
	// metric of that route and of the interface together; the host prefers the smallest.
	Default bool
	Metric  uint32
	// Endpoint reports whether the interface looks like the virtual adapter of an HNS endpoint or of an internal
	// switch: it is called "vEthernet (NAME)", and no other interface is called NAME. HNS calls the adapter that takes
	// the place of a network card "vEthernet (NAME OF THE CARD)". It may be true for switches that an administrator
	// made (unverified, no. 69).
	Endpoint bool
}
