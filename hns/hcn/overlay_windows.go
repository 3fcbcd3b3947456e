package hcn

import (
	"context"
	"encoding/json"
	"strings"

	"porthole.dev/porthole/hns"
)

// Overlay is a Client that can change overlay networks too.
type Overlay struct{ *Client }

// AddRemoteSubnet tells an overlay network which host serves a range. HNS takes a second policy for one range; which
// of the two then counts is not known, so remove the first one before.
func (o Overlay) AddRemoteSubnet(ctx context.Context, network hns.NetworkID, r hns.RemoteSubnet) error {
	return o.change(ctx, network, "Add", remoteSubnetTo(r))
}

// RemoveRemoteSubnet takes the policy of a range away, which has to be given as HNS lists it. One that is gone is
// success.
func (o Overlay) RemoveRemoteSubnet(ctx context.Context, network hns.NetworkID, r hns.RemoteSubnet) error {
	err := o.change(ctx, network, "Remove", remoteSubnetTo(r))
	if hns.IsAbsent(err) {
		return nil
	}
	return err
}

// AddHostRoute lets the host's own programs reach the pods of an overlay network on this host.
func (o Overlay) AddHostRoute(ctx context.Context, network hns.NetworkID) error {
	return o.change(ctx, network, "Add", policyDoc{Type: "HostRoute", Settings: json.RawMessage("{}")})
}

// change adds or removes one policy of a network; request is Add or Remove.
func (o Overlay) change(ctx context.Context, id hns.NetworkID, request string, p policyDoc) error {
	_, err := call(ctx, o.Client, strings.ToLower(request)+" policy", p.Type+" of network "+string(id),
		func() (struct{}, error) {
			return struct{}{}, networks.modified(string(id), networkPolicyDoc(request, p), nil)
		})
	return err
}

// remoteSubnetTo is the policy that leads to another node's pods.
func remoteSubnetTo(r hns.RemoteSubnet) policyDoc {
	return policyDoc{Type: "RemoteSubnetRoute",
		Settings: mustJSON(remoteSubnetDoc{r.Prefix.String(), r.VSID, r.Provider.String(), r.MAC})}
}
