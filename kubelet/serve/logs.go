package serve

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// The answers to queries that cannot be parsed, and to those that are not valid.
var (
	errDecode  = errors.New(`{"message": "Unable to decode query."}`)
	errInvalid = errors.New(`{"message": "Invalid request."}`)
)

// parseLogQuery parses the PodLogOptions of a query. The error is errDecode or errInvalid.
func parseLogQuery(q url.Values, now time.Time) (logQuery, error) {
	out := logQuery{follow: truth(q, "follow"), timestamps: truth(q, "timestamps"), previous: truth(q, "previous"),
		stream: q.Get("stream")}
	if tail := q.Get("tail"); tail == "all" { // the name that old clients have for tailLines
		q.Del("tailLines")
	} else if tail != "" {
		q.Set("tailLines", tail)
	}

	// The first error stays, and one about decoding wins over one about validity.
	var failed error
	number := func(name string, least int64) *int64 {
		text := q.Get(name)
		if text == "" {
			return nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			failed = errDecode
		} else if n < least && failed == nil {
			failed = errInvalid
		}
		return &n
	}
	out.tail = number("tailLines", 0)
	out.limit = number("limitBytes", 1)

	since := number("sinceSeconds", 1)
	if since != nil {
		out.since = now.Add(-time.Duration(min(*since, maxSinceSeconds)) * time.Second)
	}
	if text := q.Get("sinceTime"); text != "" && text != "null" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			failed = errDecode
		}
		if since != nil && failed == nil {
			failed = errInvalid
		}
		out.since = at
	}

	switch out.stream {
	case v1.LogStreamStdout, v1.LogStreamStderr:
		if out.tail != nil && failed == nil {
			failed = errInvalid // upstream's rule: it is undecided which lines the last lines of one stream are
		}
	case v1.LogStreamAll, "":
	default:
		if failed == nil {
			failed = errInvalid
		}
	}
	return out, failed
}

// maxSinceSeconds is the most seconds that a time.Duration can hold.
const maxSinceSeconds = int64(1<<63-1) / int64(time.Second)

// truth parses a boolean of a query as the API server does: absence, "false" and "0" are false, everything else is
// true.
func truth(q url.Values, name string) bool {
	text, there := q[name]
	return there && (len(text) == 0 || text[0] != "false" && text[0] != "0")
}

// pick returns the container ID and log file of the instance that a client wants to read. An error has the status code
// of the answer.
func (s *Server) pick(r *http.Request, previous bool) (id, path string, code int, err error) {
	name := r.PathValue("container")
	pod := r.PathValue("pod")
	view, ok := s.find(r)
	if !ok {
		return "", "", http.StatusNotFound, fmt.Errorf("pod %q does not exist", pod)
	}
	if !hasContainer(view.Pod, name) {
		return "", "", http.StatusNotFound, fmt.Errorf("container %q not found in pod %q", name, pod)
	}
	if id, err = loggedID(view.Pod, name, previous); err != nil {
		return "", "", http.StatusBadRequest, err
	}
	if path = view.Logs[id]; path == "" {
		return "", "", http.StatusBadRequest, fmt.Errorf("unable to retrieve container logs for %s", id)
	}
	return id, path, 0, nil
}

// loggedID returns the ID of the instance whose log a client wants to read, by the pod's published status.
func loggedID(p *v1.Pod, name string, previous bool) (string, error) {
	c, ok := statusOf(p, name)
	if !ok {
		return "", fmt.Errorf("container %q in pod %q is not available", name, p.Name)
	}
	// before is the instance before the current one, if its end is known.
	before := ""
	if c.LastTerminationState.Terminated != nil {
		before = c.LastTerminationState.Terminated.ContainerID
	}

	// Of the current instance the log exists once it has started.
	id := ""
	switch {
	case previous:
		if before == "" {
			return "", fmt.Errorf("previous terminated container %q in pod %q not found", name, p.Name)
		}
		id = before
	case c.State.Running != nil:
		id = c.ContainerID
	case c.State.Terminated != nil:
		if id = c.State.Terminated.ContainerID; id == "" { // the next instance did not start
			id = before
		}
	default:
		id = before
	}

	if id != "" {
		return shortID(id), nil
	}
	if c.State.Terminated != nil || c.LastTerminationState.Terminated != nil {
		return "", fmt.Errorf("container %q in pod %q is terminated", name, p.Name)
	}
	return "", waitsToStart(p, name, c.State.Waiting)
}

// waitsToStart returns the error for a container that has no log yet, in upstream's words.
func waitsToStart(p *v1.Pod, name string, w *v1.ContainerStateWaiting) error {
	if w == nil {
		return fmt.Errorf("container %q in pod %q is waiting to start - no logs yet", name, p.Name)
	}
	why := w.Reason
	switch why {
	case "ErrImagePull":
		why = "image can't be pulled"
	case "ImagePullBackOff":
		why = "trying and failing to pull image"
	}
	return fmt.Errorf("container %q in pod %q is waiting to start: %s", name, p.Name, why)
}

// shortID returns a container ID without the name of the runtime.
func shortID(id string) string {
	_, after, ok := strings.Cut(id, "://")
	if !ok {
		return id
	}
	return after
}

// statusOf returns the status of a container of any kind, false if there is none.
func statusOf(p *v1.Pod, name string) (v1.ContainerStatus, bool) {
	for _, all := range [][]v1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses,
		p.Status.EphemeralContainerStatuses} {
		for _, c := range all {
			if c.Name == name {
				return c, true
			}
		}
	}
	return v1.ContainerStatus{}, false
}

// hasContainer reports whether the pod's spec has a container of that name, of any kind.
func hasContainer(p *v1.Pod, name string) bool {
	is := func(c v1.Container) bool { return c.Name == name }
	return slices.ContainsFunc(p.Spec.Containers, is) || slices.ContainsFunc(p.Spec.InitContainers, is) ||
		slices.ContainsFunc(p.Spec.EphemeralContainers, func(c v1.EphemeralContainer) bool { return c.Name == name })
}

// containerLogs serves the log of one container: the current instance or the previous one. Once a part of the log was
// sent, the status of the answer can no longer change, so a later error is only logged.
func (s *Server) containerLogs(w http.ResponseWriter, r *http.Request) {
	q, err := parseLogQuery(r.URL.Query(), time.Now())
	if err != nil {
		code := http.StatusBadRequest
		if errors.Is(err, errInvalid) {
			code = http.StatusUnprocessableEntity
		}
		http.Error(w, err.Error(), code)
		return
	}

	id, path, code, err := s.pick(r, q.previous)
	if err != nil {
		http.Error(w, err.Error(), code)
		return
	}

	running := func() bool { // a log that is followed ends with its instance, also if the container is restarted
		view, ok := s.find(r)
		now := view.Containers[r.PathValue("container")]
		return ok && now.ID == id && now.Running
	}
	out := &flushed{to: w, control: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/plain")
	if q.follow {
		_ = out.control.Flush() // the client sees that the log is open before there is a line
	}
	if err := readLog(r.Context(), path, q, running, out); err != nil && r.Context().Err() == nil {
		klog.FromContext(r.Context()).Error(err, "Could not serve a log", "containerID", id, "path", path)
		if !out.used {
			http.Error(w, fmt.Sprintf("failed to read the log of container %q: it cannot be opened or read",
				r.PathValue("container")), http.StatusInternalServerError)
		}
	}
}

// flushed sends what is written to the client at once.
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
