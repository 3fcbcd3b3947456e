package platform

// CheckNode has nothing to find fault with: there are neither control groups nor swap devices.
func CheckNode(NodeRules) error { return nil }
