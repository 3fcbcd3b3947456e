//go:build tools

// Package bundle names the upstream program that this module builds, so that go.mod pins all that it needs.
package bundle

import _ "sigs.k8s.io/metrics-server/cmd/metrics-server"
