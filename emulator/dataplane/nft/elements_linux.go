package nft

import (
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"porthole.dev/porthole/emulator/dataplane/table"
	"porthole.dev/porthole/internal/platform"
)

// Elements writes elements of a table over netlink. It keeps its connection from one change to the next. Its methods
// are called one at a time.
type Elements struct {
	Netns string // path; "" means the caller's own

	conn *nftables.Conn // nil: there is none yet
}

// elementsPerMessage keeps a message's list of elements under the 64 KiB of a netlink attribute.
const elementsPerMessage = 200

// Write removes and adds the elements of a change in one transaction of netlink, without starting the nft program. It
// passes over the lines of the change, if it has any.
func (e *Elements) Write(tx *table.Transaction) error {
	err := e.write(tx)
	if err != nil {
		e.Close() // it may have messages of this change
	}
	return err
}

func (e *Elements) write(tx *table.Transaction) error {
	if e.conn == nil {
		err := platform.InNetns(e.Netns, func() (err error) {
			e.conn, err = nftables.New(nftables.AsLasting())
			return err
		})
		if err != nil {
			return fmt.Errorf("opening nftables: %w", err)
		}
	}

	for i, elems := range [][]table.Element{tx.Gone, tx.Come} {
		queue := e.conn.SetAddElements
		if i == 0 {
			queue = e.conn.SetDeleteElements
		}
		for len(elems) > 0 {
			n := 1
			for n < len(elems) && n < elementsPerMessage && elems[n].Set == elems[0].Set {
				n++
			}
			if err := queueElements(queue, tx.Table, elems[:n]); err != nil {
				return err
			}
			elems = elems[n:]
		}
	}
	return e.conn.Flush()
}

// Close closes the connection, if there is one. The next Write opens another.
func (e *Elements) Close() {
	if e.conn != nil {
		_ = e.conn.CloseLasting() // it only waits for goroutines that there are none of
		e.conn = nil
	}
}

// queueElements hands over elements of one set.
func queueElements(queue func(*nftables.Set, []nftables.SetElement) error, name string, elems []table.Element) error {
	fam, nfFamily := table.IPv4, nftables.TableFamilyIPv4
	if name == table.IPv6.Table {
		fam, nfFamily = table.IPv6, nftables.TableFamilyIPv6
	}
	kind, encoded, err := fam.Encode(elems)
	if err != nil {
		return err
	}
	set := &nftables.Set{Table: &nftables.Table{Name: table.Name, Family: nfFamily}, Name: elems[0].Set,
		IsMap: kind.Map, DataType: nftables.TypeInteger}
	if kind.Verdicts {
		set.DataType = nftables.TypeVerdict
	}

	out := make([]nftables.SetElement, len(encoded))
	for i, e := range encoded {
		out[i].Key, out[i].Val = e.Key, e.Value
		if e.Chain != "" {
			verdict := expr.VerdictJump
			if e.Goto {
				verdict = expr.VerdictGoto
			}
			out[i].VerdictData = &expr.Verdict{Kind: verdict, Chain: e.Chain}
		}
	}
	return queue(set, out)
}

// Within runs f with a connection of its own in the network namespace at path; "" means the caller's own.
func Within(path string, f func(*nftables.Conn) error) error {
	return platform.InNetns(path, func() error {
		c, err := nftables.New()
		if err != nil {
			return fmt.Errorf("opening nftables: %w", err)
		}
		return f(c)
	})
}
