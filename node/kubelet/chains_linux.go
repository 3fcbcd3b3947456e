package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/coreos/go-iptables/iptables"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/loop"
)

// Chains of iptables, which upstream's kubelet makes for others (1.36, pkg/kubelet/kubelet_network_linux.go). By the
// first two a program in a container, such as kube-proxy or a CNI plugin, finds out which of its iptables, legacy or
// nft, is the one of the node.
const (
	hintChain     = "KUBE-IPTABLES-HINT"
	canaryChain   = "KUBE-KUBELET-CANARY"
	firewallChain = "KUBE-FIREWALL"
)

// loopbackRule drops packets from outside to the node's loopback addresses, which kube-proxy's route_localnet would
// let in (CVE-2020-8558). kube-proxy has the same rule in the same chain, so that each word of it counts.
var loopbackRule = []string{"-m", "comment", "--comment", "block incoming localnet connections", "--dst", "127.0.0.0/8",
	"!", "--src", "127.0.0.0/8",
	"-m", "conntrack", "!", "--ctstate", "RELATED,ESTABLISHED,DNAT", "-j", "DROP"}

// chainsPeriod is how often the chains are looked for: something that sets up a firewall may take away all of them.
const chainsPeriod = time.Minute

// keepChains makes the chains for both families of addresses, and again when they are gone, until ctx ends. They stay
// then: others use them. A node without iptables gets none, as nobody there can need them.
func keepChains(ctx context.Context) {
	var keeping sync.WaitGroup
	defer keeping.Wait()
	for _, family := range []iptables.Protocol{iptables.ProtocolIPv4, iptables.ProtocolIPv6} {
		tables, err := iptables.New(iptables.IPFamily(family), iptables.Timeout(5))
		if errors.Is(err, exec.ErrNotFound) {
			klog.FromContext(ctx).Info("The node has no iptables: the chain KUBE-IPTABLES-HINT is not made", "cause",
				err)
			return
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Chains of iptables are not made")
			continue
		}
		keeping.Go(func() { chains{tables}.keep(ctx) })
	}
}

// chains are those of one family.
type chains struct{ *iptables.IPTables }

// keep makes the chains once, and restores them when others have deleted them. The same error is
// logged once.
func (c chains) keep(ctx context.Context) {
	said, make := "", c.ensure
	loop.Loop{Period: chainsPeriod, Pass: func(context.Context) error {
		err := make()
		make = c.restore
		if err != nil && err.Error() != said {
			said = err.Error()
			klog.FromContext(ctx).Error(err, "Making chains of iptables failed")
		}
		return err
	}}.Run(ctx)
}

// restore makes all of it again if the canary is gone.
func (c chains) restore() error {
	there, err := c.ChainExists("mangle", canaryChain)
	if err != nil || there {
		return err
	}
	return c.ensure()
}

// ensure makes what is missing. The canary in mangle is the last: it says that all else is there.
func (c chains) ensure() error {
	err := c.ensureChain("mangle", hintChain)
	if err == nil && c.Proto() == iptables.ProtocolIPv4 { // IPv6 routes nothing to loopback addresses
		err = c.ensureFirewall()
	}
	for _, table := range []string{"filter", "nat", "mangle"} {
		if err == nil {
			err = c.ensureChain(table, canaryChain)
		}
	}
	return err
}

// ensureFirewall makes the chain, the rules that lead to it, and the rule in it.
func (c chains) ensureFirewall() error {
	if err := c.ensureChain("filter", firewallChain); err != nil {
		return err
	}
	for _, from := range []string{"OUTPUT", "INPUT"} {
		if err := c.InsertUnique("filter", from, 1, "-j", firewallChain); err != nil {
			return fmt.Errorf("leading %s of iptables to %s: %w", from, firewallChain, err)
		}
	}
	if err := c.AppendUnique("filter", firewallChain, loopbackRule...); err != nil {
		return fmt.Errorf("writing the rule of %s: %w", firewallChain, err)
	}
	return nil
}

// ensureChain takes a chain that exists for success.
func (c chains) ensureChain(table, chain string) error {
	err := c.NewChain(table, chain)
	var failed *iptables.Error
	if errors.As(err, &failed) && failed.ExitStatus() == 1 { // it is there
		return nil
	}
	if err != nil {
		return fmt.Errorf("making chain %s of table %s: %w", chain, table, err)
	}
	return nil
}
