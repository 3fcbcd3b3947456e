// Package fit reads a cluster for `porthole routes --from-cluster` and `porthole join --plan`. It is apart from the
// agent, whose program stays small.
package fit

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/routes/fit"
)

// Fit reads a cluster that has a network and says which of our modes fits it. It changes nothing. A part of the
// cluster that cannot be read is in the advice; only nodes have to be readable. modes are those that there are.
func Fit(ctx context.Context, kubeconfig string, modes []string) (fit.Advice, error) {
	client, err := kube.NewCluster(kubeconfig)
	if err != nil {
		return fit.Advice{}, err
	}
	c, err := Read(ctx, client)
	if err != nil {
		return fit.Advice{}, err
	}
	return fit.Advise(c, modes), nil
}

// reader asks an API server. *kube.Cluster implements it, and the client of package join. What does not exist is no
// error.
type reader interface {
	Nodes(ctx context.Context) ([]v1.Node, error)
	DaemonSets(ctx context.Context) ([]appsv1.DaemonSet, error)
	ConfigMap(ctx context.Context, name types.NamespacedName) (*v1.ConfigMap, error)
	ServiceRanges(ctx context.Context) ([]netip.Prefix, error)
	Custom(ctx context.Context, group, version, resource string) ([]json.RawMessage, error)
}

// Read reads what fit.Advise wants to know. It returns an error if the nodes cannot be read; what else cannot be read
// is in Unread.
func Read(ctx context.Context, client reader) (c fit.Cluster, err error) {
	if c.Nodes, err = client.Nodes(ctx); err != nil {
		return c, err
	}
	unread := func(what string, err error) {
		if err != nil {
			c.Unread = append(c.Unread, fit.Unread{What: what, Why: err.Error()})
		}
	}

	sets, err := client.DaemonSets(ctx)
	unread("DaemonSets", err)
	for _, d := range sets {
		c.Workloads = append(c.Workloads, fit.FromDaemonSet(d))
	}
	for _, name := range fit.ConfigMaps {
		namespace, short, _ := strings.Cut(name, "/")
		m, err := client.ConfigMap(ctx, types.NamespacedName{Namespace: namespace, Name: short})
		unread("ConfigMap "+name, err)
		if m != nil {
			c.ConfigMaps = append(c.ConfigMaps, v1.ConfigMap{ObjectMeta: m.ObjectMeta, Data: m.Data})
		}
	}
	c.Services, err = client.ServiceRanges(ctx)
	unread("ServiceCIDRs", err)

	for _, k := range fit.Kinds {
		items, err := client.Custom(ctx, k.Group, k.Version, k.Resource)
		unread(k.Resource+"."+k.Group, err)
		for _, item := range items {
			var meta struct{ Metadata struct{ Name string } }
			_ = json.Unmarshal(item, &meta) // the name is for people only
			c.Custom = append(c.Custom, fit.Custom{Kind: k.Kind, Name: meta.Metadata.Name, JSON: item})
		}
	}
	return c, nil
}
