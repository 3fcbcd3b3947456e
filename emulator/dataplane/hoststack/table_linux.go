package hoststack

import (
	"context"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"

	"porthole.dev/porthole/emulator/dataplane/nft"
)

// Table is the nft table of the host's own IP stack, beside those of HNS. It holds which interfaces forward packets, by
// index: a setting belongs to its interface and is gone with it, as on Windows.
const Table = "hnsstack"

// Sets of the table.
const (
	forwarding4 = "forward4"
	forwarding6 = "forward6"
	switched    = "switched" // bridges of overlays: HNS itself carries what passes them
)

// stackRules drops every packet in transit that came in by an interface without forwarding. What stays on one switch
// is not forwarded: pods of one host reach each other.
const stackRules = `add table inet ` + Table + `
add set inet ` + Table + ` ` + forwarding4 + ` { type iface_index; }
add set inet ` + Table + ` ` + forwarding6 + ` { type iface_index; }
add set inet ` + Table + ` ` + switched + ` { type iface_index; }
add chain inet ` + Table + ` forward { type filter hook forward priority -10; policy accept; }
add rule inet ` + Table + ` forward iifname "hnsb*" oifname "hnsb*" accept
add rule inet ` + Table + ` forward iifname "hnsx*" accept
add rule inet ` + Table + ` forward oifname "hnsx*" accept
add rule inet ` + Table + ` forward iif @` + switched + ` accept
add rule inet ` + Table + ` forward oif @` + switched + ` accept
add rule inet ` + Table + ` forward meta nfproto ipv4 iif @` + forwarding4 + ` accept
add rule inet ` + Table + ` forward meta nfproto ipv6 iif @` + forwarding6 + ` accept
add rule inet ` + Table + ` forward drop
`

// prepare makes the table unless it is there. If the tables cannot be listed it makes none: its rules would be there
// twice.
func prepare(program nft.Program) error {
	ctx := context.Background()
	if there, err := program.Has(ctx, "inet", Table); err != nil || there {
		return err
	}
	return program.Run(ctx, stackRules)
}

func stackSet(name string) *nftables.Set {
	return &nftables.Set{Name: name, KeyType: nftables.TypeIFIndex,
		Table: &nftables.Table{Name: Table, Family: nftables.TableFamilyINet}}
}

func inSet(c *nftables.Conn, set string, index int) (bool, error) {
	elems, err := c.GetSetElements(stackSet(set))
	return slices.ContainsFunc(elems, func(e nftables.SetElement) bool {
		return len(e.Key) == 4 && binaryutil.NativeEndian.Uint32(e.Key) == uint32(index)
	}), err
}

// setMember adds an interface to a set or removes it. It does nothing if the set is so already.
func setMember(c *nftables.Conn, set string, index int, in bool) error {
	is, err := inSet(c, set, index)
	if err != nil || is == in {
		return err
	}
	elems := []nftables.SetElement{{Key: binaryutil.NativeEndian.PutUint32(uint32(index))}}
	if in {
		err = c.SetAddElements(stackSet(set), elems)
	} else {
		err = c.SetDeleteElements(stackSet(set), elems)
	}
	if err != nil {
		return err
	}
	return c.Flush()
}
