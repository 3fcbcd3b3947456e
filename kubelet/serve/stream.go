package serve

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/proxy"
	translate "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"porthole.dev/porthole/kubelet/pod"
)

// running returns the container that a request names. If it does not run, running answers the request and returns
// false.
func (s *Server) running(w http.ResponseWriter, r *http.Request) (pod.ContainerView, bool) {
	view, ok := s.find(r)
	if !ok {
		http.Error(w, fmt.Sprintf("pod %q does not exist", r.PathValue("ns")+"/"+r.PathValue("pod")),
			http.StatusNotFound)
		return pod.ContainerView{}, false
	}
	c, ok := view.Containers[r.PathValue("container")]
	if !ok || c.ID == "" || !c.Running {
		http.Error(w, fmt.Sprintf("container not found (%q)", r.PathValue("container")), http.StatusNotFound)
		return pod.ContainerView{}, false
	}
	return c, true
}

// execOrAttach serves /exec and /attach, which differ in the path only.
func (s *Server) execOrAttach(w http.ResponseWriter, r *http.Request) {
	if s.opts.Streams == nil {
		http.Error(w, "streaming is not available", http.StatusNotImplemented)
		return
	}
	c, ok := s.running(w, r)
	if !ok {
		return
	}

	q := r.URL.Query()
	req := ExecRequest{
		ContainerID: c.ID,
		Command:     q["command"],
		Stdin:       flag(q, "input"),
		Stdout:      flag(q, "output"),
		Stderr:      flag(q, "error"),
		TTY:         flag(q, "tty"),
	}
	if req.TTY {
		req.Stderr = false // a terminal has one stream
	}
	if !req.Stdin && !req.Stdout && !req.Stderr {
		http.Error(w, "you must specify at least 1 of stdin, stdout, stderr", http.StatusBadRequest)
		return
	}

	// The two paths differ in their first letter.
	address := ""
	err := error(nil)
	kind := "exec"
	if r.URL.Path[1] == 'e' {
		address, err = s.opts.Streams.ExecURL(r.Context(), req)
	} else {
		req.Command, kind = nil, "attach"
		address, err = s.opts.Streams.AttachURL(r.Context(), req)
	}
	s.pass(w, r, stream{address: address, err: err, wrap: func(to *url.URL, plain http.Handler) http.Handler {
		if !wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
			return plain
		}
		s.requests.sockets.WithLabelValues(kind).Inc()
		// Runtimes do not speak version 5 of the protocol: it is translated to SPDY.
		translator := translate.NewStreamTranslatorHandler(to, nil, 0,
			translate.Options{Stdin: req.Stdin, Stdout: req.Stdout, Stderr: req.Stderr, Tty: req.TTY})
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { translator.ServeHTTP(onePrefix{w}, r) })
	}})
}

// flag reads the two forms in which clients write a boolean here.
func flag(q url.Values, name string) bool { return q.Get(name) == "1" || q.Get(name) == "true" }

// portForward asks the runtime for the address of a port-forward stream into the pod and connects the client with it.
// Clients that speak WebSocket name the ports in the query; those that speak SPDY name them inside the stream.
func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	if s.opts.Streams == nil {
		http.Error(w, "streaming is not available", http.StatusNotImplemented)
		return
	}
	view, ok := s.find(r)
	if !ok || view.SandboxID == "" {
		http.Error(w, fmt.Sprintf("pod %q does not exist or does not run", r.PathValue("ns")+"/"+r.PathValue("pod")),
			http.StatusNotFound)
		return
	}

	// Clients have written both names.
	var ports []int32
	for _, text := range append(r.URL.Query()["port"], r.URL.Query()["ports"]...) {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			http.Error(w, fmt.Sprintf("unable to parse %q as a port", text), http.StatusBadRequest)
			return
		}
		ports = append(ports, int32(n))
	}

	address, err := s.opts.Streams.PortForwardURL(r.Context(), view.SandboxID, ports)
	s.pass(w, r, stream{address: address, err: err, wrap: func(_ *url.URL, plain http.Handler) http.Handler {
		if !wsstream.IsWebSocketRequestWithTunnelingProtocol(r) {
			return plain
		}
		s.requests.sockets.WithLabelValues("portforward").Inc()
		return translate.NewTunnelingHandler(plain)
	}})
}

// stream is the runtime's answer to a request for a stream. wrap puts a translator before the runtime's streaming
// server if the client speaks another protocol.
type stream struct {
	address string
	err     error
	wrap    func(to *url.URL, plain http.Handler) http.Handler
}

// pass connects the client with the runtime's streaming server.
// Errors of the runtime answer 500 before the connection is taken over.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, to stream) {
	address, err := to.address, to.err
	if err == nil && address == "" {
		err = errors.New("the runtime gave no address")
	}
	var target *url.URL
	if err == nil {
		target, err = url.Parse(address)
	}
	if err != nil {
		http.Error(w, "asking the runtime for a stream: "+err.Error(), http.StatusInternalServerError)
		return
	}
	r.Header.Del("Authorization") // the runtime does not need it
	to.wrap(target, proxy.NewUpgradeAwareHandler(target, nil, false, true, responder{})).ServeHTTP(w, r)
}

// responder answers when the runtime's streaming server cannot be reached.
type responder struct{}

func (responder) Error(w http.ResponseWriter, r *http.Request, err error) {
	klog.FromContext(r.Context()).Error(err, "Could not proxy a stream", "path", r.URL.Path)
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// runCommand serves /run: it runs a command without streams and answers with its output.
func (s *Server) runCommand(w http.ResponseWriter, r *http.Request) {
	if s.opts.Exec == nil {
		http.Error(w, "running commands is not available", http.StatusNotImplemented)
		return
	}
	c, ok := s.running(w, r)
	if !ok {
		return
	}
	// A command is split at blanks: there is no quoting, as with upstream.
	exit, out, err := s.opts.Exec(r.Context(), c.ID, strings.Split(r.URL.Query().Get("cmd"), " "), 0)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case exit != 0:
		http.Error(w, fmt.Sprintf("command terminated with exit code %d: %s", exit, out),
			http.StatusInternalServerError)
	default:
		_, _ = w.Write(out)
	}
}
