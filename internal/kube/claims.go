package kube

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
)

// resources are the claims to devices, and the offers of devices, as a node sees them.
type resources struct {
	client kubernetes.Interface
	node   string
}

// ResourceClaim reads a ResourceClaim. A node may not watch them.
func (r resources) ResourceClaim(ctx context.Context, namespace, name string) (*resourcev1.ResourceClaim, error) {
	return r.client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
}

// DeleteResourceSlices deletes the ResourceSlices of this node by which a driver offers devices; those of all drivers
// for "".
func (r resources) DeleteResourceSlices(ctx context.Context, driver string) error {
	which := fields.Set{resourcev1.ResourceSliceSelectorNodeName: r.node}
	if driver != "" {
		which[resourcev1.ResourceSliceSelectorDriver] = driver
	}
	return r.client.ResourceV1().ResourceSlices().
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: which.String()})
}
