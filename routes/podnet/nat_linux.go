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

// NATTable is the name of the nft table (families ip and ip6) of the outbound NAT. It holds nothing else, and nobody
// else uses it.
const NATTable = "porthole-routes"

// natChain is the only chain of the table.
const natChain = "outbound"

// NAT keeps the outbound NAT of the caller's network namespace: packets of pods leave with the node's address, unless
// they go to one of Options.Exceptions. The zero value is ready to use.
type NAT struct{}

// Ensure sets the rules for o, those of each family in one transaction, and reports whether they were others before.
func (NAT) Ensure(o Options) (changed bool, err error) {
	changed, err = ensureNAT(nftables.TableFamilyIPv4, o.PodCIDR, o.Exceptions())
	if err != nil || !o.Second.PodCIDR.IsValid() {
		return changed, err
	}
	six, err := ensureNAT(nftables.TableFamilyIPv6, o.Second.PodCIDR, o.exceptions6())
	return changed || six, err
}

// ensureNAT sets the rule of one family, for packets of pods that do not go to one of the exceptions.
func ensureNAT(family nftables.TableFamily, pods netip.Prefix, exceptions []netip.Prefix) (changed bool, err error) {
	kernel, err := nftables.New()
	if err != nil {
		return false, fmt.Errorf("preparing outbound NAT: %w", err)
	}
	table := &nftables.Table{Name: NATTable, Family: family}
	chain := &nftables.Chain{Name: natChain, Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource}

	listed, err := kernel.GetRules(table, chain)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return false, fmt.Errorf("listing outbound NAT rules: %w", err)
	}
	mark := natMark(pods, exceptions)
	if len(listed) == 1 {
		if have, ok := userdata.GetString(listed[0].UserData, userdata.TypeComment); ok && have == mark {
			return false, nil
		}
	}

	kernel.AddTable(table)
	kernel.AddChain(chain)
	kernel.FlushChain(chain)
	kernel.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: natRule(pods, exceptions),
		UserData: userdata.AppendString(nil, userdata.TypeComment, mark)})
	if err := kernel.Flush(); err != nil {
		return false, fmt.Errorf("setting outbound NAT rules: %w", err)
	}
	return true, nil
}

// field is an address in the header of a packet: where it is by family, in bytes (RFC 791, section 3.1; RFC 8200,
// section 3).
type field struct{ four, six uint32 }

var (
	source      = field{12, 8}
	destination = field{16, 24}
)

// natRule returns the one rule as the kernel takes it: source is a pod, destination is no exception and no multicast
// address.
func natRule(pods netip.Prefix, exceptions []netip.Prefix) []expr.Any {
	rule := address(source, expr.CmpOpEq, pods)
	for _, e := range exceptions {
		rule = append(rule, address(destination, expr.CmpOpNeq, e)...)
	}
	return append(rule,
		&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Register: 1, Op: expr.CmpOpNeq, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_MULTICAST)},
		&expr.Masq{})
}

// address compares the network of an address in a packet's header with p.
func address(at field, op expr.CmpOp, p netip.Prefix) []expr.Any {
	network := p.Masked().Addr().AsSlice()
	offset := at.four
	if p.Addr().Is6() {
		offset = at.six
	}
	size := uint32(len(network))
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: net.CIDRMask(p.Bits(), len(network)*8),
			Xor: make([]byte, size)},
		&expr.Cmp{Register: 1, Op: op, Data: network},
	}
}

// natMark returns the comment of the rule. Ensure recognises the right rule by it, because the kernel returns rules in
// a form of its own.
func natMark(pods netip.Prefix, exceptions []netip.Prefix) string {
	parts := []string{pods.Masked().String(), "to outside"}
	for _, e := range exceptions {
		parts = append(parts, "not "+e.String())
	}
	return strings.Join(parts, " ")
}
