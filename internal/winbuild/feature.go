package winbuild

import (
	"fmt"
	"strings"
)

// Feature is something of Windows that a node needs, or that its pods may need.
type Feature struct {
	Name   string `json:"name"`
	First  Build  `json:"firstBuild"` // the first build that has it
	Source string `json:"source"`
}

// features, by their first build.
var features = []Feature{
	{"pods of several containers, which share a network compartment", Server1709,
		"Kubernetes documentation for 1.9, \"Using Windows Server Containers\""},
	{"volumes of ConfigMaps, Secrets and tokens, whose files are symbolic links", Server1803,
		"Kubernetes documentation for 1.9, \"Using Windows Server Containers\""},
	{"pod sandboxes of containerd", Server2019, "hcsshim containerd-shim-runhcs-v1: no pods before RS5"},
	{"HCN, the second API of the Host Networking Service (version 9.2)", Server2019,
		"hcsshim hcn/hcnglobals.go V2ApiSupport"},
	{"overlay networks with remote subnets (HNS 9.2)", Server2019, "hcsshim hcn/hcnglobals.go RemoteSubnetVersion"},
	{"direct server return of load balancers (HNS 9.3)", Server2019, "hcsshim hcn/hcnglobals.go DSRVersion"},
	{"HostProcess containers", Server2019, "hcsshim internal/jobcontainers: part of containerd's pods"},
}

// OldestNode is the first build that can be a node.
const OldestNode = Server2019

// Missing returns the features that a build lacks, by their first build.
func Missing(b Build) []Feature {
	var out []Feature
	for _, f := range features {
		if b < f.First {
			out = append(out, f)
		}
	}
	return out
}

// TooOldError is the error that a build of Windows is too old for a node. Its text names what the build lacks.
type TooOldError struct{ Build Build }

func (e *TooOldError) Error() string {
	var lacks []string
	for _, f := range Missing(e.Build) {
		lacks = append(lacks, fmt.Sprintf("%s (first in %s)", f.Name, f.First))
	}
	return fmt.Sprintf("build %s of Windows is too old for a node: the oldest is %s; it lacks: %s", e.Build, OldestNode,
		strings.Join(lacks, "; "))
}

// CheckNode returns a *TooOldError for a build that cannot be a node. Zero, a build that is not known, passes.
func CheckNode(b Build) error {
	if b != 0 && b < OldestNode {
		return &TooOldError{b}
	}
	return nil
}
