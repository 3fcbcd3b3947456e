package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
)

const (
	maxBody      = 10 << 10
	maxRedirects = 10
	maxAttempts  = 3 // if the probe cannot run
)

// outcome is that of one run. warning means a success with a warning event.
type outcome struct {
	ok      bool
	warning bool
	text    string
}

// run runs a probe once. An error means that it could not run; it does not count.
func (m *Manager) run(ctx context.Context, p *v1.Probe, t Target) (outcome, error) {
	timeout := timingOf(p).timeout
	switch h := p.ProbeHandler; {
	case h.Exec != nil:
		return m.runExec(ctx, h.Exec.Command, t, timeout)
	case h.HTTPGet != nil:
		return runHTTP(ctx, m.opts.UserAgent, h.HTTPGet, t, timeout)
	case h.TCPSocket != nil:
		port, err := findPort(h.TCPSocket.Port.String(), t.Container)
		if err != nil {
			return outcome{}, err
		}
		host := h.TCPSocket.Host
		if host == "" {
			host = t.PodIP
		}
		return runTCP(ctx, net.JoinHostPort(host, strconv.Itoa(port)), timeout), nil
	case h.GRPC != nil:
		return runGRPC(ctx, m.opts.UserAgent, h.GRPC, t.PodIP, timeout), nil
	}
	return outcome{}, fmt.Errorf("the probe has no handler")
}

func (m *Manager) runExec(ctx context.Context, command []string, t Target, timeout time.Duration) (outcome, error) {
	exit, out, err := m.opts.Exec(ctx, t.ID, command, timeout)
	if len(out) > maxBody {
		out = out[:maxBody]
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), status.Code(err) == codes.DeadlineExceeded:
		return outcome{text: fmt.Sprintf("command timed out after %v: %s", timeout, out)}, nil
	case err != nil:
		return outcome{}, fmt.Errorf("running command of probe: %w", err)
	}
	return outcome{ok: exit == 0, text: string(out)}, nil
}

// findPort returns the port with a number, or with the name of a port of the container.
func findPort(port string, c *v1.Container) (int, error) {
	n, err := strconv.Atoi(port)
	if err != nil {
		for _, p := range c.Ports {
			if p.Name == port {
				n = int(p.ContainerPort)
			}
		}
	}
	if n < 1 || n > 65535 {
		return 0, fmt.Errorf("port %q is not a port of container %s", port, c.Name)
	}
	return n, nil
}

func runTCP(ctx context.Context, address string, timeout time.Duration) outcome {
	d := dialer(timeout)
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return outcome{text: err.Error()}
	}
	_ = conn.Close()
	return outcome{ok: true}
}

// runHTTP sends one request. It returns an error only if no request can be made from the probe; no answer and a bad
// answer are outcomes. As with upstream's kubelet, the certificate of the server is not checked, every run opens a
// connection of its own, and a redirect to another host is a success with a warning.
func runHTTP(ctx context.Context, agent string, h *v1.HTTPGetAction, t Target, timeout time.Duration) (outcome, error) {
	port, err := findPort(h.Port.String(), t.Container)
	if err != nil {
		return outcome{}, err
	}
	req, err := httpRequest(ctx, agent, h, net.JoinHostPort(hostOf(h, t), strconv.Itoa(port)))
	if err != nil {
		return outcome{}, err
	}

	transport := &http.Transport{
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives:  true,
		DisableCompression: true,
		DialContext:        dialer(timeout).DialContext,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: sameHost}

	resp, err := client.Do(req)
	if err != nil {
		return outcome{text: err.Error()}, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return outcome{text: fmt.Sprintf("reading answer: %v", err)}, nil
	}

	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return outcome{ok: true, warning: true,
			text: fmt.Sprintf("Probe terminated redirects, Response body: %s", body)}, nil
	case resp.StatusCode >= 200 && resp.StatusCode < 400:
		return outcome{ok: true, text: string(body)}, nil
	}
	return outcome{text: fmt.Sprintf("HTTP probe failed with statuscode: %d", resp.StatusCode)}, nil
}

func hostOf(h *v1.HTTPGetAction, t Target) string {
	if h.Host != "" {
		return h.Host
	}
	return t.PodIP
}

// sameHost follows redirects to the same host only. Others end the probe with a warning.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

// httpRequest makes the request of a probe or of a lifecycle hook. Headers follow upstream's rules: the pod's own
// value of User-Agent and Accept replaces ours, an empty value means that the header is not sent, and Host is the name
// of the virtual host.
func httpRequest(ctx context.Context, agent string, h *v1.HTTPGetAction, address string) (*http.Request, error) {
	u, err := url.Parse(h.Path)
	if err != nil { // a path that cannot be parsed is sent as it is
		u = &url.URL{Path: h.Path}
	}
	scheme := strings.ToLower(string(h.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	u.Scheme, u.Host = scheme, address

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("making request of probe: %w", err)
	}
	for _, header := range h.HTTPHeaders {
		req.Header.Add(header.Name, header.Value)
	}

	setDefault := func(name, value string) {
		switch have, ok := req.Header[name]; {
		case !ok:
			req.Header.Set(name, value)
		case len(have) == 1 && have[0] == "": // an empty value removes the header
			delete(req.Header, name)
			if name == "User-Agent" { // net/http sends its own unless there is an empty one
				req.Header[name] = []string{""}
			}
		}
	}
	setDefault("User-Agent", agent)
	setDefault("Accept", "*/*")
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	return req, nil
}

// runGRPC asks the standard health service of gRPC once, without TLS. The texts are upstream's, because users search
// for them.
func runGRPC(ctx context.Context, agent string, h *v1.GRPCAction, podIP string, timeout time.Duration) outcome {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	address := net.JoinHostPort(podIP, strconv.Itoa(int(h.Port)))
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithUserAgent(agent),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, a string) (net.Conn, error) {
			return dialer(timeout).DialContext(ctx, "tcp", a)
		}))
	if err != nil {
		return outcome{text: err.Error()}
	}
	defer conn.Close()

	service := ""
	if h.Service != nil {
		service = *h.Service
	}
	resp, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{Service: service})

	switch status.Code(err) {
	case codes.OK:
	case codes.Unimplemented:
		return outcome{text: fmt.Sprintf("service %q at %q does not implement grpc.health.v1.Health", service, address)}
	case codes.DeadlineExceeded:
		return outcome{text: fmt.Sprintf("timeout: health rpc did not complete within %v", timeout)}
	case codes.Unavailable:
		return outcome{text: fmt.Sprintf("timeout: failed to connect service %q within %v: %v", address, timeout, err)}
	default:
		return outcome{text: fmt.Sprintf("health rpc probe failed: %v", err)}
	}
	if resp.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		return outcome{text: fmt.Sprintf("service unhealthy (responded with %q)", resp.GetStatus())}
	}
	return outcome{ok: true, text: "service healthy"}
}

// dialer returns a dialer whose connections linger for one second when they are closed. Otherwise many probes would
// fill the range of dynamic ports with connections in TIME_WAIT (kubernetes issue 89898).
func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, Control: linger}
}
