package attach

import (
	"context"
	"errors"
	"strings"

	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/cni/ipam"
	"porthole.dev/porthole/hns"
)

// Del removes the sandbox's endpoint and then its address. What is gone already is not an error. For another container
// of the sandbox it does nothing.
func (p *Plugin) Del(ctx context.Context, c Call) error {
	at, err := p.place(c, false)
	if err != nil || at.joins {
		return err
	}
	e, err := p.Reader.EndpointByName(ctx, endpointName(at.sandbox, c.Config.Name))
	if err != nil && !hns.IsAbsent(err) {
		return err
	}
	if err == nil {
		if err := p.remove(ctx, e); err != nil {
			return err
		}
	}

	pool, err := ipam.Open(c.Config.IPAM, c.Config.Name)
	if err != nil {
		return err
	}
	return pool.Release(c.Container, c.Interface)
}

func (p *Plugin) remove(ctx context.Context, e hns.Endpoint) error {
	if e.Namespace != "" {
		if err := p.Writer.RemoveFromNamespace(ctx, e.Namespace, e.ID); err != nil {
			return err
		}
	}
	return p.Writer.DeleteEndpoint(ctx, e.ID)
}

// GC removes the endpoints and addresses of all sandboxes that the runtime does not know. An address stays if its
// endpoint could not be removed.
func (p *Plugin) GC(ctx context.Context, config *contract.Config) error {
	valid := map[string]bool{}
	for _, a := range config.ValidAttachments {
		valid[a.ContainerID] = true
	}
	network, err := p.network(ctx, config.Name)
	if err != nil {
		return err
	}
	list, err := p.Reader.Endpoints(ctx, network.ID)
	if err != nil {
		return err
	}

	var errs []error
	for _, e := range list {
		container, ours := strings.CutSuffix(e.Name, endpointName("", config.Name))
		if e.Remote || !ours || valid[container] {
			continue
		}
		if err := p.remove(ctx, e); err != nil {
			errs = append(errs, err)
			valid[container] = true // its address stays with it
		}
	}

	pool, err := ipam.Open(config.IPAM, config.Name)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, pool.Keep(valid))...)
}
