package kubeproxy

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

// waitingLogged is the time between two log lines while the API does not answer.
const waitingLogged = 10 * time.Second

// refuse returns an error if another program programs the services on this node; "" is none. Each connection would be
// translated twice: the second translation hides the first, and replies take another path than requests.
func refuse(programmer string) error {
	if programmer == "" {
		return nil
	}
	return fmt.Errorf(
		"%s program this cluster's services: no kube-proxy may run on this node beside them. Do not start it, and take away what it "+
			"has set up with `kube-proxy --cleanup`; or choose another --mode of `porthole routes`, which then says so on the Node", programmer)
}

// alone waits until the Node was read from the API, and returns an error if it names another program that programs
// this node's services. It returns nil if the context ends before. After it returned nil, a goroutine watches the Node
// and calls end when it names one.
func (p *parts) alone(ctx context.Context, end context.CancelCauseFunc) error {
	for listed := false; !listed; {
		select {
		case <-p.node.Listed():
			listed = true
		case <-time.After(waitingLogged):
			klog.FromContext(ctx).
				Info(
					"Nothing is programmed before this node was read from the API, because another program may program its services", "node", p.Hostname)
		case <-ctx.Done():
			return nil
		}
	}
	if err := refuse(p.node.Programmer()); err != nil {
		return err
	}

	p.background.Go(func() {
		for {
			if err := refuse(p.node.Programmer()); err != nil {
				end(err)
			}
			select {
			case <-p.node.Programmed():
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}
