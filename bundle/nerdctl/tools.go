//go:build tools

// Package bundle names nerdctl's main package, so that go.mod pins all that it needs.
package bundle

import _ "github.com/containerd/nerdctl/cmd/nerdctl"
