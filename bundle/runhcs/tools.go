//go:build tools

// Package bundle names the upstream program that this module builds, so that go.mod pins all that it needs.
package bundle

import (
	_ "github.com/Microsoft/hcsshim/cmd/containerd-shim-runhcs-v1"
)
