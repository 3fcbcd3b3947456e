package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hcn"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/kernel"
	"porthole.dev/porthole/proxy/service"
)

func unsupported() error { return nil }

// run serves until ctx ends. HNS keeps what was programmed.
func run(ctx context.Context, s settings) error {
	ctx = logging(ctx, s.verbosity)
	logger := klog.FromContext(ctx)
	for _, w := range s.warnings {
		logger.Info("Configuration has unknown fields", "warning", w)
	}
	client, _, err := kube.LoadFor(s.master, s.kubeconfig, "kube-proxy.exe/porthole", s.qps, s.burst)
	if err != nil {
		return err
	}
	server := health.New(health.Options{Node: s.hostname})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop, err := serveAll(s, server, func(err error) { cancel(err) })
	if err != nil {
		return err
	}
	defer stop()

	services, err := kube.WatchServices(ctx, client, s.hostname)
	if err != nil {
		return err
	}
	host := hcn.New(hcn.Options{Observe: func(kind string, took time.Duration, err error) {
		result := "ok"
		if err != nil {
			result = string(hns.ClassOf(err))
		}
		server.Called(kind, result, took)
	}})
	proxy := kernel.New(kernel.Options{
		NetworkName: s.network, EnableDSR: s.enableDSR, Host: host, Changed: services.Changed(), Report: server.Update,
		Wanted: func() (service.Result, bool) {
			all, slices, zone, complete := services.Snapshot()
			if !complete {
				return service.Result{}, false
			}
			server.Taken(nil)
			return service.Frontends(all, slices, service.Node{Name: s.hostname, Zone: zone}), true
		},
	})
	logger.Info("Serving services", "node", s.hostname, "network", s.network, "dsr", s.enableDSR)
	if err := proxy.Run(ctx); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// serveAll starts the health and metrics servers; a port in use is an error that names it.
func serveAll(s settings, server *health.Server, failed func(error)) (func(), error) {
	var servers []*http.Server
	stop := func() {
		for _, server := range servers {
			_ = server.Close() // nothing is lost: every answer is short
		}
	}
	for _, part := range []struct {
		flag, addr string
		handler    http.Handler
	}{
		{"healthz-bind-address", s.healthz, server.HealthHandler()},
		{"metrics-bind-address", s.metrics, server.MetricsHandler(health.Pages{})},
	} {
		listener, err := net.Listen("tcp", part.addr)
		if err != nil {
			stop()
			return nil, fmt.Errorf("opening --%s %s: %w", part.flag, part.addr, err)
		}
		h := &http.Server{Handler: part.handler, ReadHeaderTimeout: 10 * time.Second}
		servers = append(servers, h)
		go func() {
			if err := h.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				failed(fmt.Errorf("serving %s: %w", part.addr, err))
			}
		}()
	}
	return stop, nil
}
