package serve

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// parseLogQuery reads PodLogOptions from a query.
func parseLogQuery(q url.Values, now time.Time) (logQuery, error) {
	out := logQuery{follow: q.Get("follow") == "true", timestamps: q.Get("timestamps") == "true", stream: q.Get("stream")}
	number := func(name string, least int64) (*int64, error) {
		text := q.Get(name)
		if text == "" {
			return nil, nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < least {
			return nil, fmt.Errorf("%s: Invalid value: %q: must be a number of at least %d", name, text, least)
		}
		return &n, nil
	}
	var since *int64
	var err error
	if out.tail, err = number("tailLines", 0); err != nil {
		return out, err
	}
	if out.limit, err = number("limitBytes", 1); err != nil {
		return out, err
	}
	if since, err = number("sinceSeconds", 1); err != nil {
		return out, err
	}
	if since != nil {
		out.since = now.Add(-time.Duration(*since) * time.Second)
	}
	if text := q.Get("sinceTime"); text != "" {
		if since != nil {
			return out, fmt.Errorf("at most one of `sinceTime` or `sinceSeconds` may be specified")
		}
		if out.since, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return out, fmt.Errorf("sinceTime: Invalid value: %q: %w", text, err)
		}
	}
	return out, nil
}

// pick finds the instance of a container whose log is wanted; an error comes with the status of the answer.
func (s *Server) pick(r *http.Request, previous bool) (ContainerView, int, error) {
	name, pod := r.PathValue("container"), r.PathValue("pod")
	view, ok := s.find(r)
	if !ok {
		return ContainerView{}, http.StatusNotFound, fmt.Errorf("pod %q does not exist", r.PathValue("ns")+"/"+pod)
	}
	c, ok := view.Containers[name]
	if !ok {
		for _, known := range containerNames(view) {
			if known == name {
				return ContainerView{}, http.StatusBadRequest, fmt.Errorf("container %q in pod %q is waiting to start: %s", name, pod, waitingReason(view, name))
			}
		}
		return ContainerView{}, http.StatusNotFound, fmt.Errorf("container %q not found in pod %q", name, r.PathValue("ns")+"/"+pod)
	}
	if previous {
		if c.Previous == nil {
			return c, http.StatusBadRequest, fmt.Errorf("previous terminated container %q in pod %q not found", name, pod)
		}
		return *c.Previous, 0, nil
	}
	if c.LogPath == "" || c.ID == "" {
		if c.Previous != nil && c.Previous.LogPath != "" { // waits to be started again
			return *c.Previous, 0, nil
		}
		reason := c.Reason
		if reason == "" {
			reason = "ContainerCreating"
		}
		return c, http.StatusBadRequest, fmt.Errorf("container %q in pod %q is waiting to start: %s", name, pod, reason)
	}
	return c, 0, nil
}

// waitingReason is what the pod's status says about a container that was never created.
func waitingReason(view PodView, name string) string {
	for _, all := range [][]v1.ContainerStatus{view.Pod.Status.InitContainerStatuses, view.Pod.Status.ContainerStatuses} {
		for _, c := range all {
			if c.Name == name && c.State.Waiting != nil && c.State.Waiting.Reason != "" {
				return c.State.Waiting.Reason
			}
		}
	}
	return "ContainerCreating"
}

func containerNames(view PodView) []string {
	var names []string
	for _, c := range view.Pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range view.Pod.Spec.Containers {
		names = append(names, c.Name)
	}
	for _, c := range view.Pod.Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	return names
}

func (s *Server) containerLogs(w http.ResponseWriter, r *http.Request) {
	q, err := parseLogQuery(r.URL.Query(), time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	c, code, err := s.pick(r, r.URL.Query().Get("previous") == "true")
	if err != nil {
		http.Error(w, err.Error(), code)
		return
	}
	running := func() bool {
		view, ok := s.find(r)
		now := view.Containers[r.PathValue("container")]
		return ok && now.ID == c.ID && now.State != Exited
	}
	out := &flushed{to: w, control: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/plain")
	if q.follow {
		_ = out.control.Flush() // the client sees that the log is open before there is a line
	}
	if err := readLog(r.Context(), c.LogPath, q, running, out); err != nil && r.Context().Err() == nil {
		klog.FromContext(r.Context()).Error(err, "Could not serve a log", "containerID", c.ID, "path", c.LogPath)
		if !out.used {
			http.Error(w, fmt.Sprintf("failed to read the log of container %q: it cannot be opened or read", r.PathValue("container")), http.StatusInternalServerError)
		}
	}
}

// flushed sends each line at once.
type flushed struct {
	to      io.Writer
	control *http.ResponseController
	used    bool
}

func (f *flushed) Write(b []byte) (int, error) {
	f.used = true
	n, err := f.to.Write(b)
	if err != nil {
		return n, err
	}
	return n, f.control.Flush()
}
