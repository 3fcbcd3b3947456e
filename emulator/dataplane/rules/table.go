package rules

import (
	"porthole.dev/porthole/emulator/dataplane/table"
)

// Table is the rules of one family in the making.
type Table struct {
	*table.Draft
	Balancers *Balancers
	host      *Host
}

// New is the rules of a host without endpoints and load balancers.
func New(f table.Family, h *Host) *Table {
	d := table.NewDraft(f)
	return &Table{Draft: d, host: h, Balancers: newBalancers(d, h)}
}

// Begin renders what every host has.
func (t *Table) Begin(f Fences) { base(t.Draft, t.host, f) }
