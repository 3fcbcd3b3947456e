package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/test/proxy/lab/expected"
)

// Settled waits until HNS has exactly what the services imply: see Diff. It does not wait for a program that has ended.
func (h *Host) Settled(ctx context.Context, within time.Duration, foreign ...string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h.mu.Lock()
	if n := len(h.procs); n > 0 {
		last := h.procs[n-1]
		go func() {
			select {
			case <-last.Done():
				_, err := last.Ended()
				cancel(fmt.Errorf("the proxy has ended: %v", err))
			case <-ctx.Done():
			}
		}()
	}
	h.mu.Unlock()

	err := wait.For(ctx, within, "HNS to be as the services want it", func(ctx context.Context) error {
		diff, err := h.Diff(ctx, foreign...)
		if err == nil && len(diff) > 0 {
			err = errors.New(strings.Join(diff[:min(8, len(diff))], "; "))
		}
		return err
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return errors.Join(cause, err)
	}
	return err
}

// Diff lists how HNS differs from what the services and slices that the host sees imply: see expected.Host.Diff.
// foreign are the ids of objects that are not the proxy's.
func (h *Host) Diff(ctx context.Context, foreign ...string) ([]string, error) {
	var have expected.HNS
	if err := h.HNS.Control(ctx, "GET", "/dump", nil, &have); err != nil {
		return nil, err
	}
	o := metav1.ListOptions{}
	if h.o.Isolated {
		o.LabelSelector = Label(h.Name)
	}
	services, err := h.lab.Client.CoreV1().Services("").List(ctx, o)
	if err != nil {
		return nil, err
	}
	list, err := h.lab.Client.DiscoveryV1().EndpointSlices("").List(ctx, o)
	if err != nil {
		return nil, err
	}
	of := expected.Host{Name: h.Name, Addr: h.Addr, Addr6: h.Addr6, IPv6: h.o.IPv6}
	return of.Diff(services.Items, list.Items, have, foreign), nil
}

// LoadBalancers returns HNS's load balancers, oldest first.
func (h *Host) LoadBalancers(ctx context.Context) ([]expected.LoadBalancer, error) {
	var have expected.HNS
	err := h.HNS.Control(ctx, "GET", "/dump", nil, &have)
	return have.LoadBalancers, err
}
