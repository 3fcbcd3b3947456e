package attach

import (
	"context"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/cni/ipam"
	"porthole.dev/porthole/hns"
)

// Attachments returns the sandboxes that have an endpoint or an address of the network. A network that HNS does not
// have has no endpoints.
func (p *Plugin) Attachments(ctx context.Context, config *contract.Config) ([]types.GCAttachment, error) {
	pool, err := ipam.Open(config.IPAM, config.Name)
	if err != nil {
		return nil, err
	}
	out, err := pool.Owners()
	if err != nil {
		return nil, err
	}
	network, err := p.Reader.NetworkByName(ctx, config.Name)
	switch {
	case hns.IsAbsent(err):
		return out, nil
	case err != nil:
		return nil, err
	}
	list, err := p.Reader.Endpoints(ctx, network.ID)
	if err != nil {
		return nil, err
	}

	has := map[string]bool{}
	for _, a := range out {
		has[a.ContainerID] = true
	}
	for _, e := range list {
		container, ours := strings.CutSuffix(e.Name, endpointName("", config.Name))
		if ours && !e.Remote && !has[container] {
			out = append(out, types.GCAttachment{ContainerID: container})
		}
	}
	return out, nil
}
