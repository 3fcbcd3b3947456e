package cluster

import "context"

// writeWindowsNode writes what only an emulated Windows host has.
func writeWindowsNode(l Layout, n Node) error { return nil }

func ensureWindowsHosts(ctx context.Context, l Layout, c Config) error { return nil }
