package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/datapath"
	"porthole.dev/porthole/cluster/install"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/manifests"
	"porthole.dev/porthole/cluster/network"
	"porthole.dev/porthole/cluster/nodes"
	"porthole.dev/porthole/cluster/steps"
	"porthole.dev/porthole/internal/kube"
)

// How long each wait of Up may take. A cold machine with a slow disk needs about a tenth of it.
const (
	controlPlaneWait = 60 * time.Second
	nodesWait        = 120 * time.Second
	addonsWait       = 120 * time.Second
)

// settle waits until the cluster works, and prints each step that is reached.
func settle(ctx context.Context, l layout.Layout, c config.Cluster, r *steps.Report) error {
	client, err := kube.NewCluster(l.Kubeconfig())
	if err != nil {
		return err
	}

	err = steps.Wait(ctx, controlPlaneWait, func(ctx context.Context) error { return client.Ready(ctx) })
	if err != nil {
		return fmt.Errorf("the control plane is not ready: %w (log: %s)", err, l.Log("controlplane"))
	}
	r.Done("control plane")
	u := unsettled{l, c, client, r}
	if _, err := os.Stat(l.Checked()); err == nil {
		return errors.Join(u.nodes(ctx), u.network(ctx))
	}

	for _, step := range []func(context.Context) error{u.objects, u.joins, u.nodes, u.network, u.firewalls, u.datapath,
		u.metrics} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return install.File(l.Checked(), nil, 0o644)
}

// unsettled is a cluster whose control plane is ready. Each of its methods waits for one part to work.
type unsettled struct {
	l      layout.Layout
	c      config.Cluster
	client *kube.Cluster
	r      *steps.Report
}

// objects gives the API server the objects that every cluster has, and those that joining machines need.
func (u unsettled) objects(ctx context.Context) error {
	err := steps.Wait(ctx, controlPlaneWait, func(ctx context.Context) error { return applyBase(ctx, u.l) })
	if err != nil {
		return err
	}
	return steps.Wait(ctx, controlPlaneWait, func(ctx context.Context) error { return prepareJoins(ctx, u.l, u.c) })
}

func applyBase(ctx context.Context, l layout.Layout) error {
	ca, err := os.ReadFile(l.Credential("ca.crt"))
	if err != nil {
		return err
	}
	if err := manifests.Apply(ctx, l, manifests.Base(ca)); err != nil {
		return err
	}
	return install.File(l.Applied(), nil, 0o644)
}

// prepareJoins gives the cluster what machines that join it need.
func prepareJoins(ctx context.Context, l layout.Layout, c config.Cluster) error {
	ca, err := os.ReadFile(l.Credential("ca.crt"))
	if err != nil {
		return err
	}
	list, err := manifests.Joins(c, ca)
	if err != nil {
		return err
	}
	for _, manifest := range list {
		if err := manifests.Apply(ctx, l, manifest); err != nil {
			return err
		}
	}
	return nil
}

// joins makes Windows nodes that set themselves up nodes of the cluster.
func (u unsettled) joins(ctx context.Context) error {
	if u.c.Supervisor != config.SuperviseServices {
		return nil
	}
	if err := nodes.JoinWindows(ctx, u.l, u.c); err != nil {
		return err
	}
	u.r.Done("porthole join on the Windows nodes")
	return nil
}

// nodes waits until every node is Ready, or has registered if its network is left to others.
func (u unsettled) nodes(ctx context.Context) error {
	seen := map[string]bool{}
	var reached error // of writing what is
	err := steps.Wait(ctx, nodesWait, func(ctx context.Context) error {
		have, err := u.client.Nodes(ctx)
		if err != nil {
			return err
		}
		ready := nodesReady(u.c.Networked(), have, func(name string) {
			if !seen[name] {
				seen[name] = true
				reached = errors.Join(reached, install.File(u.l.Ready(name), nil, 0o644))
				u.r.Done("node " + name + " is Ready")
			}
		})
		return errors.Join(reached, ready, nodesRegistered(u.c.Nodes(), have))
	})
	if err != nil {
		return fmt.Errorf("%w (`porthole status` tells more; logs are in %s)", err, u.l.Hosts())
	}
	return nil
}

// network does what the network between nodes needs once they are there.
func (u unsettled) network(ctx context.Context) error {
	complete := network.Of(u.c).Settle
	if complete == nil {
		return nil
	}
	err := steps.Wait(ctx, addonsWait, func(ctx context.Context) error { return complete(ctx, u.l, u.c, u.client) })
	if err != nil {
		return fmt.Errorf("network %s: %w", u.c.Network, err)
	}
	u.r.Done("network " + u.c.Network)
	return nil
}

// firewalls makes the rules for our programs on nodes with a firewall.
func (u unsettled) firewalls(ctx context.Context) error {
	if !u.c.WindowsFirewall {
		return nil
	}
	if err := nodes.OpenFirewalls(ctx, u.l, u.c); err != nil {
		return err
	}
	u.r.Done("firewall rules of the Windows nodes")
	return nil
}

func (u unsettled) datapath(ctx context.Context) error {
	return datapath.Check(ctx, u.l, u.c, u.client, u.r)
}

func (u unsettled) metrics(ctx context.Context) error {
	err := steps.Wait(ctx, addonsWait,
		func(ctx context.Context) error { return u.client.Serves(ctx, "metrics.k8s.io", "v1beta1") })
	if err != nil {
		return fmt.Errorf("metrics-server: %w (log: %s)", err, u.l.Log("metrics-server"))
	}
	u.r.Done("metrics-server")
	return nil
}

// nodesReady calls ready for each wanted node that is Ready, and returns an error that names the others.
func nodesReady(want []config.Node, have []v1.Node, ready func(name string)) error {
	conditions := map[string]v1.NodeCondition{}
	for _, n := range have {
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady {
				conditions[n.Name] = c
			}
		}
	}

	var missing []string
	for _, n := range want {
		switch c, ok := conditions[n.Name]; {
		case !ok:
			missing = append(missing, n.Name+": has not registered")
		case c.Status != v1.ConditionTrue:
			missing = append(missing, n.Name+": "+c.Reason+": "+c.Message)
		default:
			ready(n.Name)
		}
	}

	if len(missing) > 0 {
		return fmt.Errorf("nodes are not Ready: %s", strings.Join(missing, "; "))
	}
	return nil
}

// nodesRegistered returns an error that names the wanted nodes which the API does not know.
func nodesRegistered(want []config.Node, have []v1.Node) error {
	var missing []string
	for _, n := range want {
		if !slices.ContainsFunc(have, func(h v1.Node) bool { return h.Name == n.Name }) {
			missing = append(missing, n.Name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("nodes have not registered: %s", strings.Join(missing, ", "))
	}
	return nil
}
