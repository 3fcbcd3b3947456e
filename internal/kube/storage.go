package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// csiDrivers is the watch of all CSIDriver objects. It begins with the first question, for most nodes have no driver.
type csiDrivers struct {
	begin  sync.Once
	store  cache.Store
	synced func() bool
}

// driversSyncWait is how long a question waits for the first state of the watch, before it asks the API server.
const driversSyncWait = 2 * time.Second

// CSIDriver returns what the cluster says of a storage driver, from a watch. The result is shared: do not change it.
func (k *Kubelet) CSIDriver(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	k.drivers.begin.Do(func() {
		lw := cache.NewListWatchFromClient(k.client.StorageV1().RESTClient(), "csidrivers", metav1.NamespaceAll,
			fields.Everything())
		informer := cache.NewSharedInformer(lw, &storagev1.CSIDriver{}, 0)
		k.drivers.store = informer.GetStore()
		k.drivers.synced = informer.HasSynced
		go informer.Run(k.closed)
	})

	deadline := time.Now().Add(driversSyncWait)
	for !k.drivers.synced() {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return k.client.StorageV1().CSIDrivers().Get(ctx, name, metav1.GetOptions{})
		}
		time.Sleep(2 * time.Millisecond)
	}
	found, ok, err := k.drivers.store.GetByKey(name)
	if err != nil {
		return nil, fmt.Errorf("reading CSIDriver %s: %w", name, err)
	}
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "storage.k8s.io", Resource: "csidrivers"}, name)
	}
	return found.(*storagev1.CSIDriver), nil
}

// Claim reads a PersistentVolumeClaim. A node may not watch claims.
func (k *Kubelet) Claim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return k.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
}

// PatchClaimStatus sends a strategic merge patch of a claim's status.
func (k *Kubelet) PatchClaimStatus(ctx context.Context, namespace, name string,
	patch []byte) (*v1.PersistentVolumeClaim, error) {
	return k.client.CoreV1().PersistentVolumeClaims(namespace).
		Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
}

// PersistentVolume reads a PersistentVolume. A node may not watch them.
func (k *Kubelet) PersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	return k.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
}

// Attachment reads a VolumeAttachment. A node may not watch them.
func (k *Kubelet) Attachment(ctx context.Context, name string) (*storagev1.VolumeAttachment, error) {
	return k.client.StorageV1().VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
}

// CSINode reads the node's own CSINode.
func (k *Kubelet) CSINode(ctx context.Context) (*storagev1.CSINode, error) {
	return k.client.StorageV1().CSINodes().Get(ctx, k.node, metav1.GetOptions{})
}

// CreateCSINode creates the node's own CSINode.
func (k *Kubelet) CreateCSINode(ctx context.Context, n *storagev1.CSINode) (*storagev1.CSINode, error) {
	return k.client.StorageV1().CSINodes().Create(ctx, n, metav1.CreateOptions{})
}

// UpdateCSINode replaces the node's own CSINode, unless somebody changed it meanwhile.
func (k *Kubelet) UpdateCSINode(ctx context.Context, n *storagev1.CSINode) (*storagev1.CSINode, error) {
	return k.client.StorageV1().CSINodes().Update(ctx, n, metav1.UpdateOptions{})
}
