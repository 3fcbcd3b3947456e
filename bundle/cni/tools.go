//go:build tools

// Package bundle names the upstream programs that this module builds, so that go.mod pins all that they need.
package bundle

import (
	_ "github.com/containernetworking/plugins/plugins/ipam/host-local"
	_ "github.com/containernetworking/plugins/plugins/main/bridge"
	_ "github.com/containernetworking/plugins/plugins/main/loopback"
	_ "github.com/containernetworking/plugins/plugins/main/windows/win-bridge"
	_ "github.com/containernetworking/plugins/plugins/main/windows/win-overlay"
	_ "github.com/containernetworking/plugins/plugins/meta/portmap"
)
