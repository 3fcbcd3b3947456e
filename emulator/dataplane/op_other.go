//go:build !linux

package dataplane

// effect and managed have no methods where there is no data plane: plans are made and printed on every system.
type (
	effect  any
	managed any
)
