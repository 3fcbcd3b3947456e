package kubelet

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod"
)

// leastStop is what is left for the container itself when its hook used up the grace period.
const leastStop = 2 * time.Second

// preStop runs the hook inside the grace period and returns what is left of it.
func (a *actor) preStop(ctx context.Context, p *v1.Pod, c *v1.Container, x pod.Action) time.Duration {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, x.Grace)
	defer cancel()
	if err := a.hook(ctx, c.Lifecycle.PreStop, x.ID, x.Grace); err != nil {
		a.event(p, c.Name, v1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
	}
	return max(x.Grace-time.Since(began), leastStop)
}

// postStart runs beside the container; if it fails the container is stopped.
func (a *actor) postStart(p *v1.Pod, c *v1.Container, id string) {
	a.state.InFlight["start/"+c.Name+"/hook"] = time.Time{}
	a.k.running.Go(func() {
		err := a.hook(a.k.ctx, c.Lifecycle.PostStart, id, 0)
		if err != nil {
			a.event(p, c.Name, v1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
			_ = a.k.o.Runtime.StopContainer(context.WithoutCancel(a.k.ctx), id, leastStop)
		}
		a.post(func(s *pod.State) {
			delete(s.InFlight, "start/"+c.Name+"/hook")
			if err != nil {
				fail(s, c.Name, err, "PostStartHookError", time.Second)
			}
		})
	})
}

func (a *actor) hook(ctx context.Context, h *v1.LifecycleHandler, id string, timeout time.Duration) error {
	switch {
	case h.Exec != nil:
		code, out, err := a.k.o.Runtime.Exec(ctx, id, h.Exec.Command, timeout)
		if err == nil && code != 0 {
			err = fmt.Errorf("hook exited with %d: %s", code, out)
		}
		return err
	case h.Sleep != nil:
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(h.Sleep.Seconds) * time.Second):
		}
		return nil
	case h.HTTPGet != nil:
		host := h.HTTPGet.Host
		if v := a.view.Load(); host == "" && v != nil {
			host = v.Pod.Status.PodIP
		}
		scheme := "http"
		if h.HTTPGet.Scheme == v1.URISchemeHTTPS {
			scheme = "https"
		}
		url := scheme + "://" + net.JoinHostPort(host, h.HTTPGet.Port.String()) + "/" + trimSlash(h.HTTPGet.Path)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		for _, x := range h.HTTPGet.HTTPHeaders {
			req.Header.Add(x.Name, x.Value)
		}
		resp, err := hookClient.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
	}
	return nil
}

var hookClient = &http.Client{Timeout: time.Minute}

func trimSlash(p string) string {
	if len(p) > 0 && p[0] == '/' {
		return p[1:]
	}
	return p
}
