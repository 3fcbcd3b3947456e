package kubelet

import (
	"context"

	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/kube"
	core "porthole.dev/porthole/kubelet"
)

// serveHTTP starts the kubelet's HTTPS server.
func serveHTTP(context.Context, *core.Kubelet, *v1beta1.KubeletConfiguration, *kube.Kubelet, *core.Options) (stop func(), err error) {
	return func() {}, nil
}
