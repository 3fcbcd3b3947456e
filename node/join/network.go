package join

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/join/credential"
	"porthole.dev/porthole/join/preflight"
	nodefit "porthole.dev/porthole/node/fit"
	"porthole.dev/porthole/node/routes"
	"porthole.dev/porthole/routes/fit"
)

// networkFacts reads what other nodes tell about the cluster's network.
func networkFacts(ctx context.Context, api *credential.API, s *Setup, f *preflight.Facts) error {
	if !hasRoutes(s.Network) {
		return nil
	}
	// Rights are asked one by one, so that the check can name those that are missing.
	f.Cluster.Forbidden = nil // it may be asked again
	for _, need := range needs() {
		may, err := api.May(ctx, need[0], need[1], need[2])
		if err != nil {
			return err
		}
		if !may {
			f.Cluster.Forbidden = append(f.Cluster.Forbidden, need[0]+" "+need[2])
		}
	}
	if len(f.Cluster.Forbidden) > 0 {
		return nil
	}
	return readNodes(ctx, api, s.Name, &f.Cluster.Network)
}

// readNodes notes what other nodes tell about the cluster's network. Whoever may not list nodes learns nothing.
// The addresses of this machine's links tell which nodes are reached without a router.
func readNodes(ctx context.Context, api *credential.API, self string, n *preflight.Network) error {
	nodes, err := api.Nodes(ctx)
	if credential.Code(err) == http.StatusForbidden {
		return nil
	}
	if err != nil {
		return err
	}
	n.Known = true
	n.Kind, n.Remote = preflight.NetworkOf(nodes, self, links())
	return nil
}

// topologies says what this node can do in the cluster's network; only with --plan.
func (r *run) topologies(ctx context.Context, f *found) error {
	if !r.request.Plan {
		return nil
	}
	n := &f.facts.Cluster.Network
	if f.facts.Cluster.Problem == nil && f.api != nil {
		c, err := nodefit.Read(ctx, clusterReader{f.api})
		if err != nil {
			return err
		}
		n.Advice = adviceOf(fit.Advise(c, routes.Modes()))
	}
	r.report.Network = n.Name()
	r.report.Topologies = preflight.Topologies(&f.facts)
	return nil
}

// adviceOf copies the advice into the words of the checks.
func adviceOf(a fit.Advice) *preflight.Advice {
	out := &preflight.Advice{Plugin: a.Plugin, Mode: a.Mode, Flags: a.Flags, Why: a.Why, Change: a.Change}
	for _, u := range a.Unread {
		out.Unread = append(out.Unread, u.What)
	}
	return out
}

// clusterReader reads what package fit asks for, with whatever credentials this machine has.
// What is forbidden is left out where the answer can do without; other errors end the reading.
type clusterReader struct{ api *credential.API }

// Nodes lists the nodes; none if that is forbidden, as it is to tokens.
func (c clusterReader) Nodes(ctx context.Context) ([]v1.Node, error) {
	list, err := c.api.Nodes(ctx)
	if credential.Code(err) == http.StatusForbidden {
		return nil, nil
	}
	return list, err
}

// DaemonSets lists those of all namespaces.
func (c clusterReader) DaemonSets(ctx context.Context) ([]appsv1.DaemonSet, error) {
	var list appsv1.DaemonSetList
	if err := c.api.Do(ctx, http.MethodGet, "/apis/apps/v1/daemonsets", nil, &list); err != nil {
		return nil, fmt.Errorf("listing DaemonSets: %w", err)
	}
	return list.Items, nil
}

// ConfigMap returns a ConfigMap, nil if there is none.
func (c clusterReader) ConfigMap(ctx context.Context, name types.NamespacedName) (*v1.ConfigMap, error) {
	var m v1.ConfigMap
	err := c.api.Do(ctx, http.MethodGet, "/api/v1/namespaces/"+name.Namespace+"/configmaps/"+name.Name, nil, &m)
	if credential.Code(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	return &m, nil
}

// ServiceRanges returns the ranges of services; none from servers before 1.33.
func (c clusterReader) ServiceRanges(ctx context.Context) (ranges []netip.Prefix, err error) {
	var list networkingv1.ServiceCIDRList
	err = c.api.Do(ctx, http.MethodGet, "/apis/networking.k8s.io/v1/servicecidrs", nil, &list)
	if err != nil && credential.Code(err) != http.StatusNotFound {
		return nil, fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	for _, o := range list.Items {
		for _, text := range o.Spec.CIDRs {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				return nil, errors.New("listing ServiceCIDRs: " + err.Error())
			}
			ranges = append(ranges, p)
		}
	}
	return ranges, nil
}

// Custom lists objects of a kind that an extension defines; none if the server does not know it.
func (c clusterReader) Custom(ctx context.Context, group, version, resource string) ([]json.RawMessage, error) {
	var list struct{ Items []json.RawMessage }
	err := c.api.Do(ctx, http.MethodGet, "/apis/"+group+"/"+version+"/"+resource, nil, &list)
	if err != nil && credential.Code(err) != http.StatusNotFound {
		return nil, fmt.Errorf("listing %s.%s: %w", resource, group, err)
	}
	return list.Items, nil
}
