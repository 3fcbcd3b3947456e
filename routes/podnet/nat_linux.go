package podnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// NATTable is the name of the nft table (family ip) of the outbound NAT. It holds nothing else, and nobody else uses it.
const NATTable = "porthole-routes"

// natChain is the only chain of the table.
const natChain = "outbound"

// NAT keeps the outbound NAT of the caller's network namespace: packets of pods leave with the node's address, unless they go
// to one of Options.Exceptions. The zero value is ready to use.
type NAT struct{}

// Ensure sets the rules for o in one transaction, and reports whether they were others before.
func (NAT) Ensure(o Options) (changed bool, err error) {
	kernel, err := nftables.New()
	if err != nil {
		return false, fmt.Errorf("preparing outbound NAT: %w", err)
	}
	table := &nftables.Table{Name: NATTable, Family: nftables.TableFamilyIPv4}
	chain := &nftables.Chain{Name: natChain, Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource}

	listed, err := kernel.GetRules(table, chain)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return false, fmt.Errorf("listing outbound NAT rules: %w", err)
	}
	mark := o.natMark()
	if len(listed) == 1 {
		if have, ok := userdata.GetString(listed[0].UserData, userdata.TypeComment); ok && have == mark {
			return false, nil
		}
	}

	kernel.AddTable(table)
	kernel.AddChain(chain)
	kernel.FlushChain(chain)
	kernel.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: o.natRule(),
		UserData: userdata.AppendString(nil, userdata.TypeComment, mark)})
	if err := kernel.Flush(); err != nil {
		return false, fmt.Errorf("setting outbound NAT rules: %w", err)
	}
	return true, nil
}

// Where a header of IPv4 has its addresses (RFC 791, section 3.1), in bytes.
const (
	sourceOffset      = 12
	destinationOffset = 16
)

// natRule returns the one rule as the kernel takes it: source is a pod, destination is no exception and no multicast address.
func (o Options) natRule() []expr.Any {
	rule := address(sourceOffset, expr.CmpOpEq, o.PodCIDR)
	for _, e := range o.Exceptions() {
		rule = append(rule, address(destinationOffset, expr.CmpOpNeq, e)...)
	}
	return append(rule,
		&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Register: 1, Op: expr.CmpOpNeq, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_MULTICAST)},
		&expr.Masq{})
}

// address compares the network of the IPv4 address at that offset of a packet's header with p.
func address(offset uint32, op expr.CmpOp, p netip.Prefix) []expr.Any {
	network := p.Masked().Addr().As4()
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: net.CIDRMask(p.Bits(), 32), Xor: make([]byte, 4)},
		&expr.Cmp{Register: 1, Op: op, Data: network[:]},
	}
}

// natMark returns the comment of the rule for o. Ensure recognises the right rule by it, because the kernel returns rules in a
// form of its own.
func (o Options) natMark() string {
	parts := []string{o.PodCIDR.Masked().String(), "to outside"}
	for _, e := range o.Exceptions() {
		parts = append(parts, "not "+e.String())
	}
	return strings.Join(parts, " ")
}
