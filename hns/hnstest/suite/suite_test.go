package suite_test

import (
	"testing"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/hns/hnstest/suite"
)

// TestFake: the fake does what products rely on, in each version that differs. hns/hcn has the test of the others.
func TestFake(t *testing.T) {
	for _, version := range []hns.Version{{Major: 9, Minor: 5}, {Major: 13, Minor: 3}, {Major: 15, Minor: 4},
		{Major: 15, Minor: 5}} {
		t.Run(version.String(), func(t *testing.T) {
			f := hnstest.New(version)
			suite.Run(t, suite.Host{Networks: f, Endpoints: f, Balancers: f, Namespaces: f, Version: version})
			if left := f.Dump() + f.DumpNetworks(); left != "" {
				t.Errorf("left behind:\n%s", left)
			}
		})
	}
}
