package kube

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// ResourceClaim reads a ResourceClaim. A node may not watch them.
func (k *Kubelet) ResourceClaim(ctx context.Context, namespace, name string) (*resourcev1.ResourceClaim, error) {
	return k.client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
}

// DeleteResourceSlices deletes the ResourceSlices of this node by which a driver offers devices; those of all drivers for "".
func (k *Kubelet) DeleteResourceSlices(ctx context.Context, driver string) error {
	which := fields.Set{resourcev1.ResourceSliceSelectorNodeName: k.node}
	if driver != "" {
		which[resourcev1.ResourceSliceSelectorDriver] = driver
	}
	return k.client.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: which.String()})
}
