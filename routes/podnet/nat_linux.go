package podnet

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/knftables"
)

// NATTable is the name of the nft table (family ip) of the outbound NAT. It holds nothing else, and nobody else uses it.
const NATTable = "porthole-routes"

// NAT keeps the outbound NAT of the caller's network namespace: packets of pods leave with the node's address, unless they go
// to one of Options.Exceptions.
type NAT struct{ nft knftables.Interface }

// NewNAT returns an error if nft cannot be used.
func NewNAT() (*NAT, error) {
	nft, err := knftables.New(knftables.IPv4Family, NATTable)
	if err != nil {
		return nil, fmt.Errorf("preparing outbound NAT: %w", err)
	}
	return &NAT{nft: nft}, nil
}

// natChain is the only chain of the table.
const natChain = "outbound"

// Ensure sets the rules for o in one transaction, and reports whether they were others before.
func (n *NAT) Ensure(ctx context.Context, o Options) (changed bool, err error) {
	mark := o.natMark()
	chain, err := n.nft.ListRules(ctx, natChain)
	if err == nil && len(chain) == 1 && chain[0].Comment != nil && *chain[0].Comment == mark {
		return false, nil
	}
	if err != nil && !knftables.IsNotFound(err) {
		return false, fmt.Errorf("listing outbound NAT rules: %w", err)
	}

	if err := n.nft.Run(ctx, n.transaction(o, mark)); err != nil {
		return false, fmt.Errorf("setting outbound NAT rules: %w", err)
	}
	return true, nil
}

// transaction returns what replaces the whole chain by the one rule.
func (n *NAT) transaction(o Options, mark string) *knftables.Transaction {
	tx := n.nft.NewTransaction()
	tx.Add(&knftables.Table{Comment: knftables.PtrTo("outbound NAT of pods")})
	tx.Add(&knftables.Chain{
		Name: natChain, Type: knftables.PtrTo(knftables.NATType), Hook: knftables.PtrTo(knftables.PostroutingHook),
		Priority: knftables.PtrTo(knftables.SNATPriority),
	})
	tx.Flush(&knftables.Chain{Name: natChain})

	var except []string
	for _, e := range o.Exceptions() {
		except = append(except, e.String())
	}
	tx.Add(&knftables.Rule{
		Chain: natChain,
		Rule: knftables.Concat("ip saddr", o.PodCIDR.Masked(), "ip daddr != {", strings.Join(except, ", "), "}",
			"fib daddr type != multicast", "masquerade"),
		Comment: knftables.PtrTo(mark),
	})
	return tx
}

// natMark returns the comment of the rule for o. Ensure recognises the right rule by it, because nft prints rules in a form of
// its own.
func (o Options) natMark() string {
	parts := []string{o.PodCIDR.Masked().String(), "to outside"}
	for _, e := range o.Exceptions() {
		parts = append(parts, "not "+e.String())
	}
	return strings.Join(parts, " ")
}
