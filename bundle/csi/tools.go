//go:build tools

// Package bundle names the main packages of what stands between Kubernetes and a storage driver, so that go.mod pins
// all that they need.
package bundle

import (
	_ "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher"
	_ "github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner"
	_ "github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer"
)
