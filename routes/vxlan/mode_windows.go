package vxlan

import "time"

// Mode is vxlan on one Windows node. It implements keep.Mode.
type Mode = hostSwitch

// New returns the mode for one node.
func New(o Options) (*Mode, error) { return newSwitch(o) }

// Period bounds how long a wrong policy stays: HNS does not notify of them.
const Period = 5 * time.Second
