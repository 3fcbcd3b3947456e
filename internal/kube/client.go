package kube

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Load reads a kubeconfig file and makes a client that names itself userAgent and speaks protobuf. qps is requests per
// second, burst how many may go at once; zero means client-go's defaults (5 and 10), negative qps means no limit.
// The config is returned for those who need another client (dynamic, a second rate limit). An empty path means
// in-cluster credentials.
func Load(kubeconfig, userAgent string, qps float32, burst int) (kubernetes.Interface, *rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("loading kubeconfig %s: %w", kubeconfig, err)
	}
	cfg.UserAgent = userAgent
	cfg.QPS, cfg.Burst = qps, burst
	client, err := typed(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client from kubeconfig %s: %w", kubeconfig, err)
	}
	return client, cfg, nil
}

// typed makes a client for the built-in kinds, in protobuf, without touching cfg.
func typed(cfg *rest.Config) (kubernetes.Interface, error) {
	c := rest.CopyConfig(cfg)
	c.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	c.ContentType = "application/vnd.kubernetes.protobuf"
	return kubernetes.NewForConfig(c)
}

// Interface is client-go's typed client, for those who only pass it on.
type Interface = kubernetes.Interface

// LoadFor is Load with the API server's address given beside (or instead of) a kubeconfig.
func LoadFor(master, kubeconfig, userAgent string, qps float32, burst int) (kubernetes.Interface, *rest.Config, error) {
	if master == "" {
		return Load(kubeconfig, userAgent, qps, burst)
	}
	cfg, err := clientcmd.BuildConfigFromFlags(master, kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("loading kubeconfig %s for %s: %w", kubeconfig, master, err)
	}
	cfg.UserAgent, cfg.QPS, cfg.Burst = userAgent, qps, burst
	client, err := typed(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for %s: %w", master, err)
	}
	return client, cfg, nil
}
