// Package datapath tests that packets pass in a local cluster: between pods, to services, and to the outside.
package datapath

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/inspect"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/manifests"
	"porthole.dev/porthole/cluster/steps"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/httpserve"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
)

// patience is how long CoreDNS, and the pods of the test, may take to be ready. A cold machine with a slow disk needs
// about a tenth of it.
const patience = 120 * time.Second

// checkNamespace is that of manifests.Check.
const checkNamespace = "porthole-check"

// Check waits for CoreDNS and tests that packets pass: from a pod on every node to a pod on every node, to a
// service by its name, and to the outside. Nodes whose network is left to others have no part in it.
func Check(ctx context.Context, l layout.Layout, c config.Cluster, client *kube.Cluster, r *steps.Report) error {
	if err := manifests.Apply(ctx, l, manifests.Check); err != nil {
		return err
	}
	err := steps.Wait(ctx, patience, func(ctx context.Context) error {
		d, err := client.Deployment(ctx, "kube-system", "coredns")
		if err == nil && d.Status.ReadyReplicas == 0 {
			err = errors.New("CoreDNS has no ready pod")
		}
		return err
	})
	if err != nil {
		return err
	}
	r.Done("CoreDNS")

	var pods []v1.Pod
	err = steps.Wait(ctx, patience, func(ctx context.Context) error {
		var err error
		if pods, err = client.Pods(ctx, checkNamespace, "app=check"); err != nil {
			return err
		}
		pods = slices.DeleteFunc(pods, func(pod v1.Pod) bool {
			return !slices.ContainsFunc(c.Networked(), func(n config.Node) bool { return n.Name == pod.Spec.NodeName })
		})
		return podsReady(pods, len(c.Networked()))
	})
	if err != nil {
		return fmt.Errorf("pods for the test of the data path: %w", err)
	}
	r.Done("a pod on every node")

	if err := steps.Wait(ctx, 20*time.Second,
		func(ctx context.Context) error { return checkPaths(ctx, c, pods) }); err != nil {
		return fmt.Errorf("data path: %w", err)
	}
	r.Done(fmt.Sprintf("data path: %d pod-to-pod paths, service names over DNS, the outside", len(pods)*len(pods)))
	return client.DeleteNamespace(ctx, checkNamespace)
}

// podsReady returns nil if at least want of the pods are ready. The error says of one that is not ready what it waits
// for.
func podsReady(pods []v1.Pod, want int) error {
	ready := 0
	var waiting error
	for _, pod := range pods {
		isReady := false
		for _, c := range pod.Status.Conditions {
			isReady = isReady || c.Type == v1.PodReady && c.Status == v1.ConditionTrue
		}
		if isReady {
			ready++
			continue
		}
		reason := string(pod.Status.Phase)
		for _, s := range pod.Status.ContainerStatuses {
			if s.State.Waiting != nil {
				reason = s.State.Waiting.Reason + " " + s.State.Waiting.Message
			}
		}
		waiting = fmt.Errorf("%s on %s is not ready: %s", pod.Name, pod.Spec.NodeName, reason)
	}

	if ready >= want {
		return nil
	}
	return errors.Join(waiting, fmt.Errorf("%d of %d are ready", ready, want))
}

// fetchLimit bounds one HTTP request of a pod in the test of the data path.
const fetchLimit = 1500 * time.Millisecond

// checkPaths asks every pod to fetch from every target, all at once. The error says how many of the paths fail, and
// names them, in one line.
func checkPaths(ctx context.Context, c config.Cluster, pods []v1.Pod) error {
	type target struct{ name, url string }
	targets := []target{{"the service check." + checkNamespace,
		"http://check." + checkNamespace + ".svc.cluster.local/"}}
	for _, pod := range pods {
		targets = append(targets, target{"a pod on " + pod.Spec.NodeName, "http://" + pod.Status.PodIP + ":8080/"})
	}

	stop, err := serveOutside(c)
	if err != nil {
		return err
	}
	defer stop()
	targets = append(targets, target{"the outside", "http://" + outsideAddress + "/"})
	client := inspect.ClientIn(c.Netns("lin01"))
	defer client.CloseIdleConnections()

	var wg sync.WaitGroup
	errs := make([]error, len(pods)*len(targets))
	for i, pod := range pods {
		for j, t := range targets {
			wg.Go(func() {
				ask := fmt.Sprintf("http://%s:8080/fetch?timeout=%s&url=%s",
					pod.Status.PodIP, slow.Limit(fetchLimit), url.QueryEscape(t.url))
				if err := inspect.Get(ctx, client, ask); err != nil {
					errs[i*len(targets)+j] = fmt.Errorf("from a pod on %s to %s: %w", pod.Spec.NodeName, t.name, err)
				}
			})
		}
	}
	wg.Wait()
	return pathsError(errs)
}

// pathsError puts the errors of paths into one line. An element is nil for a path that works; if all are, so is the
// result.
func pathsError(paths []error) error {
	var failed []string
	for _, err := range paths {
		if err != nil {
			failed = append(failed, strings.TrimSpace(err.Error()))
		}
	}
	if failed == nil {
		return nil
	}
	return fmt.Errorf("%d of %d paths fail: %s", len(failed), len(paths), strings.Join(failed, "; "))
}

var outsideAddress = net.JoinHostPort(lab.Outside.String(), "8099")

// serveOutside answers HTTP requests at the outside address while the test runs.
func serveOutside(c config.Cluster) (stop func(), err error) {
	var listener net.Listener
	err = platform.InNetns(c.RouterNetns(), func() (err error) {
		listener, err = net.Listen("tcp", outsideAddress)
		return err
	})
	if err != nil {
		return nil, err
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "outside") })
	return httpserve.Start(listener, page, nil), nil
}
