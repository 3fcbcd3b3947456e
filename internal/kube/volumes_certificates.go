package kube

import (
	"context"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

const certificateRequest = "PodCertificateRequest"

// listWatchRequests lists and watches the requests of this node: a node may not read those of others.
func (o *Objects) listWatchRequests() cache.ListerWatcher {
	all := o.client.CertificatesV1beta1().PodCertificateRequests(metav1.NamespaceAll)
	mine := fields.OneTermEqualSelector("spec.nodeName", o.node).String()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			opts.FieldSelector = mine
			return all.List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.FieldSelector = mine
			return all.Watch(ctx, opts)
		},
	}, o.client)
}

// CreateCertificateRequest requests a certificate for a pod of this node.
func (o *Objects) CreateCertificateRequest(ctx context.Context,
	r *certificatesv1beta1.PodCertificateRequest) (*certificatesv1beta1.PodCertificateRequest, error) {
	return o.client.CertificatesV1beta1().PodCertificateRequests(r.Namespace).Create(ctx, r, metav1.CreateOptions{})
}

// CertificateRequest returns a request for a certificate as the watch has it; nil if it has none of that name. known
// is false if no watch runs or has its first state. It asks nobody: the API server may refuse a node a request that it
// does not know yet, or no longer. The result is shared: do not change it.
func (o *Objects) CertificateRequest(ctx context.Context,
	namespace, name string) (r *certificatesv1beta1.PodCertificateRequest, known bool) {
	store := o.store(ctx, objectKey{kind: certificateRequest})
	if store == nil {
		return nil, false
	}
	obj, found, err := store.GetByKey(namespace + "/" + name)
	if err != nil || !found {
		return nil, err == nil
	}
	return obj.(*certificatesv1beta1.PodCertificateRequest), true
}
