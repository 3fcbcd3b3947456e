// Package e2e pins upstream's conformance suite and the program that its images are made of, apart from our own
// dependencies. Nothing imports it.
package e2e

import (
	// The suite itself: `go test -c` makes e2e.test of it.
	_ "k8s.io/kubernetes/test/e2e"
)
