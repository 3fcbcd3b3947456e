package kube

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"porthole.dev/porthole/internal/apiconn"
)

// Load reads a kubeconfig file and returns a client that uses protobuf, with the user agent userAgent. qps and burst
// are as in apiconn.Options. The config is for callers that need another client (dynamic, a second rate limit). An
// empty path means in-cluster credentials.
func Load(kubeconfig, userAgent string, qps float32, burst int) (kubernetes.Interface, *rest.Config, error) {
	cfg, err := apiconn.Options{Kubeconfig: kubeconfig, UserAgent: userAgent, QPS: qps, Burst: burst}.Config()
	if err != nil {
		return nil, nil, err
	}
	client, err := typed(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client from kubeconfig %s: %w", kubeconfig, err)
	}
	return client, cfg, nil
}

// typed returns a client for the built-in kinds, which uses protobuf. It does not change cfg.
func typed(cfg *rest.Config) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(apiconn.Protobuf(cfg))
}

// Interface is client-go's typed client, for packages that only pass it on.
type Interface = kubernetes.Interface
