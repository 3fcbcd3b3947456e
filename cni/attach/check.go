package attach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/cni/ipam"
	"porthole.dev/porthole/hns"
)

// Check fails if the sandbox's network is not what Add returned.
func (p *Plugin) Check(ctx context.Context, c Call) error {
	at, err := p.place(c, true)
	if err != nil {
		return err
	}
	network, err := p.network(ctx, c.Config.Name)
	if err != nil {
		return err
	}
	e, err := p.Reader.EndpointByName(ctx, endpointName(at.sandbox, c.Config.Name))
	if err != nil {
		return err
	}

	if e.Network != network.ID {
		return fmt.Errorf("endpoint %s is on network %s, wanted is %s", e.Name, e.Network, network.ID)
	}
	if at.namespace != "" && e.Namespace != at.namespace {
		return fmt.Errorf("endpoint %s is in namespace %q, wanted is %s", e.Name, e.Namespace, at.namespace)
	}
	if at.joins {
		c.Container = at.sandbox
	}
	return errors.Join(checkAddresses(c, e), p.checkRules(ctx, c, network, e))
}

// checkRules returns an error that names the policies which the endpoint has to have and has not. It changes nothing.
func (p *Plugin) checkRules(ctx context.Context, c Call, network hns.Network, e hns.Endpoint) error {
	if broken := e.State.Broken(); broken != "" {
		return fmt.Errorf("endpoint %s is %s", e.Name, broken)
	}
	pool, err := ipam.Open(c.Config.IPAM, c.Config.Name)
	if err != nil {
		return err
	}
	wanted, err := p.wanted(ctx, c, network, pool, pool.Of(e.Addrs))
	if err != nil {
		return err
	}
	if missing := missingPolicies(wanted.Policies, e.Policies); len(missing) > 0 {
		return fmt.Errorf("endpoint %s is without %s", e.Name, policyNames(missing))
	}
	return nil
}

// checkAddresses compares the addresses of the earlier result with the endpoint and with the address store.
func checkAddresses(c Call, e hns.Endpoint) error {
	var prev types100.Result
	if len(c.Config.PrevResult) > 0 {
		if err := json.Unmarshal(c.Config.PrevResult, &prev); err != nil {
			return fmt.Errorf("reading prevResult: %w", err)
		}
	}
	pool, err := ipam.Open(c.Config.IPAM, c.Config.Name)
	if err != nil {
		return err
	}

	for _, ip := range prev.IPs {
		if ip == nil {
			return errors.New("reading prevResult: an address in it is null")
		}
		addr, _ := netip.AddrFromSlice(ip.Address.IP)
		addr = addr.Unmap()
		if !e.Has(addr) {
			return fmt.Errorf("endpoint %s has addresses %v, wanted is %s", e.Name, e.Addrs, addr)
		}
		if held, err := pool.Holds(c.Container, c.Interface, addr); err != nil || !held {
			return errors.Join(fmt.Errorf("address %s is not reserved for container %s", addr, c.Container), err)
		}
	}
	return nil
}

// Status fails if Add could not work.
func (p *Plugin) Status(ctx context.Context, config *contract.Config) error {
	if _, err := p.network(ctx, config.Name); err != nil {
		return err
	}
	pool, err := ipam.Open(config.IPAM, config.Name)
	if err != nil {
		return err
	}
	return pool.Ready()
}
