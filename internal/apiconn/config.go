package apiconn

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options of a connection to the API server.
type Options struct {
	// Kubeconfig is a file; empty means in-cluster credentials, unless Master, the server's URL, is given beside or
	// instead.
	Kubeconfig, Master string
	// UserAgent is what the client calls itself.
	UserAgent string
	// QPS is requests per second, Burst how many may go at once; zero means client-go's defaults (5 and 10), a
	// negative QPS no limit.
	QPS   float32
	Burst int
}

// Config reads the kubeconfig. What its clients do counts in the metrics, also before RegisterMetrics.
func (o Options) Config() (*rest.Config, error) {
	theClientMetrics()
	cfg, err := clientcmd.BuildConfigFromFlags(o.Master, o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", o, err)
	}
	cfg.UserAgent = o.UserAgent
	cfg.QPS = o.QPS
	cfg.Burst = o.Burst
	return cfg, nil
}

// String names the file, and the server where it was given.
func (o Options) String() string {
	if o.Master == "" {
		return "kubeconfig " + o.Kubeconfig
	}
	return fmt.Sprintf("kubeconfig %s for %s", o.Kubeconfig, o.Master)
}

// Protobuf is cfg for the built-in kinds, which the server then sends in protobuf. It does not touch cfg.
func Protobuf(cfg *rest.Config) *rest.Config {
	c := rest.CopyConfig(cfg)
	c.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	c.ContentType = "application/vnd.kubernetes.protobuf"
	return c
}
