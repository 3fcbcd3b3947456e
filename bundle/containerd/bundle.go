// Package bundle names the upstream packages that this module builds, so that go.mod pins all they need. It holds no
// code of ours: the programs are upstream's own main packages, see ../bundle.mk.
package bundle

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/manager"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/task/plugin"
	_ "github.com/containerd/containerd/v2/cmd/containerd/builtins"
	_ "github.com/containerd/containerd/v2/cmd/containerd/command"
	_ "github.com/containerd/containerd/v2/cmd/ctr/app"
	_ "github.com/containerd/containerd/v2/pkg/shim"
)
