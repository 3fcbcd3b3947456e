//go:build !windows

package probe

import (
	"context"
	"errors"

	"porthole.dev/porthole/check"
)

// errNotWindows is the answer of every probe elsewhere.
var errNotWindows = errors.New(
	"the probes ask a Windows host: run them there, or with `porthole host run NAME -- …` on an emulated one")

// RunHNS asks this host's HNS.
func RunHNS(context.Context, Options) (check.Report, error) { return check.Report{}, errNotWindows }

// RunHost asks this machine about names, addresses, identifiers and files.
func RunHost(context.Context, Options) (check.Report, error) { return check.Report{}, errNotWindows }

// release is empty: probes run on Windows.
func release() string { return "" }
