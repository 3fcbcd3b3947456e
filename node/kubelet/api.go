package kubelet

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/kube"
	core "porthole.dev/porthole/kubelet"
)

// connect makes the client of the API server. A node without a cluster has none.
func (p *parts) connect(ctx context.Context) error {
	if p.given.Kubeconfig == "" {
		if p.given.Bootstrap != "" {
			return errors.New("--bootstrap-kubeconfig needs --kubeconfig, which is where the outcome goes")
		}
		klog.FromContext(ctx).Info("Standalone: without --kubeconfig only static pods run")
		p.api.API = core.NewAPI(kube.Offline{})
		return nil
	}

	rest, err := kube.Credentials{Node: p.host.name, Kubeconfig: p.given.Kubeconfig, Bootstrap: p.given.Bootstrap,
		CertDir: p.given.CertDir, Rotate: p.cfg.RotateCertificates,
		UserAgent: "kubelet/" + Version, QPS: float32(*p.cfg.KubeAPIQPS), Burst: int(p.cfg.KubeAPIBurst),
		Lost: p.end}.Connect(ctx)
	if err != nil {
		return err
	}

	client, err := kube.NewKubelet(rest, p.host.name, kube.Rate{QPS: *p.cfg.EventRecordQPS, Burst: p.cfg.EventBurst})
	if err != nil {
		return err
	}

	p.api = apiServer{core.NewAPI(client), client}
	return nil
}

func (p *parts) disconnect(context.Context) {
	if p.api.client != nil {
		p.api.client.Close()
	}
}
