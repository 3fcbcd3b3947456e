//go:build !linux

package serve

import (
	"context"
	"errors"
	"io"
)

// journaled returns all services as others: Windows has no journal. Upstream reads the event log there by starting
// PowerShell, which a kubelet should not do. Services on Windows log to files.
func journaled(_ context.Context, services []string) (known, others []string) { return nil, services }

// journal is never called here, as journaled knows no service.
func journal(context.Context, []string, io.Writer) error { return errors.ErrUnsupported }
