//go:build tools

// Package bundle names what containerd's own suite for CRI imports, so that go.mod pins all that `go test -c` needs.
// See ../bundle.mk.
package bundle

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd/builtins"
	_ "github.com/containerd/containerd/v2/cmd/containerd/server"
	_ "github.com/containerd/containerd/v2/integration/images"
	_ "github.com/containerd/containerd/v2/integration/remote"
	_ "github.com/containerd/log/logtest"
	_ "github.com/containerd/nri/pkg/stub"
	_ "github.com/stretchr/testify/assert"
	_ "github.com/stretchr/testify/require"
)
