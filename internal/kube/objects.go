package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// ConfigMap returns a ConfigMap, and nil if there is none of that name.
func (c *Cluster) ConfigMap(ctx context.Context, name types.NamespacedName) (*v1.ConfigMap, error) {
	m, err := c.client.CoreV1().ConfigMaps(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	return m, nil
}

// Object returns the object at a path of the API as JSON, and nil if there is none.
func (c *Cluster) Object(ctx context.Context, path string) ([]byte, error) {
	data, err := c.client.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").
		DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return data, err
}

// DaemonSets lists the DaemonSets of all namespaces.
func (c *Cluster) DaemonSets(ctx context.Context) ([]appsv1.DaemonSet, error) {
	list, err := c.client.AppsV1().DaemonSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing DaemonSets: %w", err)
	}
	return list.Items, nil
}

// ServiceRanges returns the ranges of service addresses. It is empty on a server without the kind ServiceCIDR, which
// is there from Kubernetes 1.33 on.
func (c *Cluster) ServiceRanges(ctx context.Context) (ranges []netip.Prefix, err error) {
	list, err := c.client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	for _, o := range list.Items {
		for _, text := range o.Spec.CIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				ranges = append(ranges, p)
			}
		}
	}
	return ranges, nil
}

// EndpointSlices lists the EndpointSlices of a namespace ("" for all).
func (c *Cluster) EndpointSlices(ctx context.Context, namespace string) ([]discoveryv1.EndpointSlice, error) {
	list, err := c.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing EndpointSlices: %w", err)
	}
	return list.Items, nil
}

// Custom lists the objects of a kind that an extension defines, as JSON. It returns none if the server does not know
// the kind.
func (c *Cluster) Custom(ctx context.Context, group, version, resource string) ([]json.RawMessage, error) {
	cfg := rest.CopyConfig(c.config)
	cfg.APIPath = "/apis"
	cfg.GroupVersion = &metav1.SchemeGroupVersion
	cfg.ContentType = "application/json"
	cfg.AcceptContentTypes = "application/json" // such kinds have no protobuf
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", group, err)
	}

	data, err := client.Get().AbsPath("/apis", group, version, resource).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s.%s: %w", resource, group, err)
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("listing %s.%s: %w", resource, group, err)
	}
	return list.Items, nil
}
