package platform

// NodeRules are what an installer may require of a node before pods run on it. Windows satisfies all of them.
type NodeRules struct {
	// NoSwap refuses a node with swap space, NoCgroupV1 a node without cgroups of version 2.
	NoSwap, NoCgroupV1 bool
	// LimitedSwap refuses a node that cannot limit swap space as memorySwap.swapBehavior wants, which takes cgroups of
	// version 2.
	LimitedSwap bool
	// EndAllOnOOM refuses a node whose kernel cannot end all processes of a container when it is out of memory
	// (singleProcessOOMKill: false), which takes cgroups of version 2.
	EndAllOnOOM bool
}

// Resources are what a program asks the system for, for itself.
type Resources struct {
	// OOMScore is from -1000 to 1000. The kernel ends programs with a high score first when memory runs out.
	OOMScore int
	// OpenFiles is the limit of open files.
	OpenFiles uint64
}
