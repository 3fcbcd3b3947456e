//go:build !linux

package report

import "porthole.dev/porthole/cli/origin"

// localLogs returns nothing: there are no local clusters here.
func localLogs(origin.Flags) ([]entry, error) { return nil, nil }
