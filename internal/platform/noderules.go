package platform

// NodeRules are what an installer may demand of a node before pods run on it. Windows meets all of them.
type NodeRules struct {
	// NoSwap refuses a node that swaps, NoCgroupV1 one whose control groups are not of version 2.
	NoSwap, NoCgroupV1 bool
}
