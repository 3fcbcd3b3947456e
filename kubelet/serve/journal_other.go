//go:build !linux

package serve

import (
	"context"
	"errors"
	"io"
)

// journaled finds none: Windows has no journal, and its event log is read by starting PowerShell upstream, which a kubelet
// should not do. Services log to files there.
func journaled(_ context.Context, services []string) (known, others []string) { return nil, services }

func journal(context.Context, []string, io.Writer) error { return errors.ErrUnsupported }
