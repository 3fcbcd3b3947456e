package platform

// NodeRules are what an installer may demand of a node before pods run on it. Windows meets all of them.
type NodeRules struct {
	// NoSwap refuses a node that swaps, NoCgroupV1 one whose control groups are not of version 2.
	NoSwap, NoCgroupV1 bool
}

// Resources are what a node's main program wants from the system for itself.
type Resources struct {
	// OOMScore is -1000 to 1000: how gladly the kernel ends it when memory runs out.
	OOMScore int
	// OpenFiles is how many files it may have open.
	OpenFiles uint64
}
