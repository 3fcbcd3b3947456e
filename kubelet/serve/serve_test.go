package serve

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream" //lint:ignore SA1019 client-go's dialers are of its types
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	crirc "k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"porthole.dev/porthole/kubelet/pod"
)

func TestAttributes(t *testing.T) {
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/containerLogs/ns/p/c", "get proxy"}, {"POST", "/exec/ns/p/c", "create proxy"},
		{"GET", "/pods", "get pods,proxy"},
		{"GET", "/runningpods/", "get pods,proxy"}, {"GET", "/healthz/ping", "get healthz,proxy"},
		{"GET", "/configz", "get configz,proxy"},
		{"GET", "/stats/summary", "get stats"}, {"GET", "/metrics", "get metrics"},
		{"GET", "/metrics/resource", "get metrics"},
		{"GET", "/logs/x", "get log"}, {"DELETE", "/logsx", "delete proxy"}, {"PUT", "/", "update proxy"},
		{"PATCH", "/", "patch proxy"},
	} {
		verb, subs := attributes(c.method, c.path)
		if got := verb + " " + strings.Join(subs, ","); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.method, c.path, got, c.want)
		}
	}
}

// reviewer knows the token "good" and lets its user read pods.
type reviewer struct{ reviews atomic.Int32 }

func (r *reviewer) ReviewToken(_ context.Context, token string, _ []string) (authnv1.TokenReviewStatus, error) {
	r.reviews.Add(1)
	return authnv1.TokenReviewStatus{Authenticated: token == "good", User: authnv1.UserInfo{Username: "u"}}, nil
}

func (r *reviewer) ReviewAccess(_ context.Context,
	s authzv1.SubjectAccessReviewSpec) (authzv1.SubjectAccessReviewStatus, error) {
	a := s.ResourceAttributes
	admin := slices.Contains(s.Groups, "admins")
	return authzv1.SubjectAccessReviewStatus{Allowed: a.Resource == "nodes" && a.Name == "n" &&
		(admin || s.User == "u" && a.Subresource == "pods")}, nil
}

// issue makes a CA file, and a client certificate signed by that CA.
func issue(t *testing.T, cn, org string) (string, tls.Certificate) {
	t.Helper()
	caKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2),
		Subject:  pkix.Name{CommonName: cn, Organization: []string{org}},
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(tempDir(t), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func startServer(t *testing.T, o Options) *httptest.Server {
	t.Helper()
	o.NodeName, o.TLS.CertDir = "n", tempDir(t)
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(s.Handler())
	srv.TLS = &tls.Config{GetCertificate: s.certs, ClientAuth: tls.RequestClientCert}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

func client(certs ...tls.Certificate) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
		Certificates: certs}, DisableKeepAlives: true}}
}

func get(t *testing.T, c *http.Client, url, token string) (int, string) {
	t.Helper()
	req, _ := http.NewRequest(http.MethodGet, url, nil)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func view(logPath string) []pod.View {
	return []pod.View{{
		Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u1"},
			Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}, {Name: "new"}, {Name: "crash"}, {Name: "ready"}}},
			Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
				{Name: "c", ContainerID: "containerd://cid",
					State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
				{Name: "new", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}},
				{Name: "ready",
					State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}},
				{Name: "crash", ContainerID: "containerd://old",
					State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
					LastTerminationState: v1.ContainerState{
						Terminated: &v1.ContainerStateTerminated{ContainerID: "containerd://old"}}},
			}}},
		SandboxID: "sb",
		Containers: map[string]pod.ContainerView{"c": {ID: "cid", LogPath: logPath, Running: true}, "new": {},
			"crash": {ID: "old"}},
		Logs: map[string]string{"cid": logPath, "old": logPath},
	}}
}

func TestWhoMayDoWhat(t *testing.T) {
	ca, admin := issue(t, "root", "admins")
	_, stranger := issue(t, "root", "admins")
	r := &reviewer{}
	srv := startServer(t, Options{Pods: func() []pod.View { return view("") },
		Auth: AuthOptions{ClientCAFile: ca, Tokens: true, Webhook: true, Reviewer: r}})

	for _, c := range []struct {
		who         *http.Client
		token, path string
		want        int
	}{
		{client(), "", "/pods", 401}, {client(), "bad", "/pods", 401}, {client(), "good", "/pods", 200},
		{client(), "good", "/pods", 200},
		{client(), "good", "/stats/summary", 403}, {client(), "good", "/configz", 403},
		{client(admin), "", "/configz", 200},
		{client(admin), "", "/healthz", 200}, {client(stranger), "", "/pods", 401}, {client(), "", "/healthz", 401},
		{client(admin), "", "/nothing", 404}, {client(admin), "", "/metrics", 200},
	} {
		if code, body := get(t, c.who, srv.URL+c.path, c.token); code != c.want {
			t.Errorf("%s token %q: %d %s, want %d", c.path, c.token, code, body, c.want)
		}
	}

	if n := r.reviews.Load(); n != 2 {
		t.Errorf("%d token reviews, want 2: one good (cached), one bad", n)
	}
	if _, body := get(t, client(), srv.URL+"/stats/summary",
		"good"); body != "Forbidden (user=u, verb=get, resource=nodes, subresource(s)=[stats])\n" {
		t.Errorf("refusal: %q", body)
	}
}

// TestTokenNotAskedAbout: without the webhook a token neither lets anybody in nor keeps an anonymous client out.
func TestTokenNotAskedAbout(t *testing.T) {
	for anonymous, want := range map[bool]int{true: 200, false: 401} {
		srv := startServer(t, Options{Pods: func() []pod.View { return view("") },
			Auth: AuthOptions{Anonymous: anonymous}})
		if code, body := get(t, client(), srv.URL+"/pods", "some"); code != want {
			t.Errorf("anonymous clients %v: %d %s, want %d", anonymous, code, body, want)
		}
	}
}

func TestLogAnswers(t *testing.T) {
	srv := startServer(t, Options{Auth: AuthOptions{Anonymous: true},
		Pods: func() []pod.View { return view(writeLog(t, sample)) }})
	for _, c := range []struct {
		path string
		code int
		body string
	}{
		{"ns/p/c?tailLines=2", 200, "three\n\n"},
		{"ns/none/c", 404, `pod "none" does not exist`},
		{"ns/p/none", 404, `container "none" not found in pod "p"`},
		{"ns/p/new", 400, `container "new" in pod "p" is waiting to start: trying and failing to pull image`},
		{"ns/p/ready", 400, `container "ready" in pod "p" is waiting to start: ContainerCreating`},
		{"ns/p/c?previous=true", 400, `previous terminated container "c" in pod "p" not found`},
		{"ns/p/crash?previous=true", 200, "one\n"},
		{"ns/p/crash", 200, "one\n"},
		{"ns/p/c?tailLines=-1", 422, `{"message": "Invalid request."}`},
		{"ns/p/c?tailLines=x", 400, `{"message": "Unable to decode query."}`},
	} {
		if code, body := get(t, client(), srv.URL+"/containerLogs/"+c.path, ""); code != c.code ||
			!strings.HasPrefix(body, c.body) {
			t.Errorf("%s: %d %q, want %d %q", c.path, code, body, c.code, c.body)
		}
	}
}

func TestSelfSignedCertificateIsReused(t *testing.T) {
	o := TLSOptions{NodeAddresses: []string{"10.0.0.1"}, CertDir: tempDir(t)}
	var serials [2]string
	for i := range serials {
		source, err := certificateSource(o, "n")
		if err != nil {
			t.Fatal(err)
		}
		pair, err := source(nil)
		if err != nil {
			t.Fatal(err)
		}
		serials[i] = pair.Leaf.SerialNumber.String()
		if err := pair.Leaf.VerifyHostname("10.0.0.1"); err != nil {
			t.Error(err)
		}
	}
	if serials[0] != serials[1] {
		t.Error("a restart made a new certificate")
	}
}

// echo is a streaming runtime that answers with the command, and then with its input.
type echo struct{}

func (echo) Exec(_ context.Context, id string, cmd []string, in io.Reader, out, _ io.WriteCloser, _ bool,
	_ <-chan crirc.TerminalSize) error {
	_, _ = io.WriteString(out, id+" "+strings.Join(cmd, " ")+"\n")
	if in != nil {
		_, _ = io.Copy(out, in)
	}
	if slices.Equal(cmd, []string{"absent"}) {
		return errors.New("no such file")
	}
	if slices.Equal(cmd, []string{"fail"}) {
		return exec.CodeExitError{Err: errors.New("exit status 7"), Code: 7}
	}
	return nil
}

func (e echo) Attach(ctx context.Context, id string, in io.Reader, out, errOut io.WriteCloser, tty bool,
	size <-chan crirc.TerminalSize) error {
	return e.Exec(ctx, id, []string{"attached"}, in, out, errOut, tty, size)
}

func (echo) PortForward(_ context.Context, _ string, _ int32, s io.ReadWriteCloser) error {
	_, err := io.Copy(s, s)
	return err
}

// criStreams hands out addresses of a CRI streaming server.
type criStreams struct{ streaming.Server }

func (s criStreams) ExecURL(_ context.Context, r ExecRequest) (string, error) {
	resp, err := s.GetExec(&runtimeapi.ExecRequest{ContainerId: r.ContainerID, Cmd: r.Command, Stdin: r.Stdin,
		Stdout: r.Stdout, Stderr: r.Stderr, Tty: r.TTY})
	return resp.GetUrl(), err
}

func (s criStreams) AttachURL(_ context.Context, r ExecRequest) (string, error) {
	resp, err := s.GetAttach(&runtimeapi.AttachRequest{ContainerId: r.ContainerID, Stdin: r.Stdin, Stdout: r.Stdout,
		Stderr: r.Stderr, Tty: r.TTY})
	return resp.GetUrl(), err
}

func (s criStreams) PortForwardURL(_ context.Context, id string, ports []int32) (string, error) {
	resp, err := s.GetPortForward(&runtimeapi.PortForwardRequest{PodSandboxId: id, Port: ports})
	return resp.GetUrl(), err
}

// streamingServer is a Server in front of a real streaming server of a runtime.
func streamingServer(t *testing.T) *httptest.Server {
	backend := httptest.NewUnstartedServer(nil)
	config := streaming.DefaultConfig
	config.Addr = backend.Listener.Addr().String()
	runtime, err := streaming.NewServer(config, echo{})
	if err != nil {
		t.Fatal(err)
	}
	backend.Config.Handler = runtime
	backend.Start()
	t.Cleanup(backend.Close)
	return startServer(t, Options{Auth: AuthOptions{Anonymous: true}, Pods: func() []pod.View { return view("") },
		Streams: criStreams{runtime}})
}

// Row 1.96.
func TestExecThroughARealStreamingServer(t *testing.T) {
	srv := streamingServer(t)
	executors := map[string]func(*rest.Config, string, *url.URL) (remotecommand.Executor, error){
		"SPDY": func(c *rest.Config, method string, u *url.URL) (remotecommand.Executor, error) {
			return remotecommand.NewSPDYExecutor(c, method, u)
		},
		"websocket v5": func(c *rest.Config, _ string, u *url.URL) (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutor(c, "GET", u.String())
		},
	}

	for path, want := range map[string]string{
		"/exec/ns/p/c?command=a&command=b+c&input=1&output=1": "cid a b c\nhello",
		"/exec/ns/p/u1/c?command=x&input=1&output=1&tty=1":    "cid x\nhello",
		"/attach/ns/p/c?input=1&output=1":                     "cid attached\nhello",
		"/exec/ns/p/c?command=fail&input=1&output=1":          "cid fail\nhello",
	} {
		for name, executor := range executors {
			req, _ := http.NewRequest(http.MethodPost, srv.URL+path, nil)
			ex, err := executor(&rest.Config{Host: srv.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
				"POST", req.URL)
			if err != nil {
				t.Fatal(err)
			}

			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			var out bytes.Buffer
			err = ex.StreamWithContext(ctx,
				remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out,
					Tty: strings.Contains(path, "tty=1")})
			cancel()
			var exit exec.CodeExitError
			if strings.Contains(path, "fail") && errors.As(err, &exit) && exit.Code == 7 {
				err = nil
			}
			if err != nil || out.String() != want {
				t.Errorf("%s by %s: %q %v, want %q", path, name, out.String(), err, want)
			}
		}
	}

	for path, want := range map[string]int{"/exec/ns/p/new?command=a&output=1": 404,
		"/exec/ns/p/other/c?command=a&output=1": 404, "/exec/ns/p/c?command=a": 400, "/portForward/ns/p?port=x": 400} {
		if code, body := get(t, client(), srv.URL+path, ""); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
	}
}

// TestOnePrefix: the error of a command that cannot start has one prefix, over SPDY and over a websocket, however long
// it is.
func TestOnePrefix(t *testing.T) {
	srv := streamingServer(t)
	u, _ := url.Parse(srv.URL + "/exec/ns/p/c?command=absent&output=1")
	insecure := &rest.Config{Host: srv.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	spdy, err := remotecommand.NewSPDYExecutor(insecure, "POST", u)
	if err != nil {
		t.Fatal(err)
	}
	socket, err := remotecommand.NewWebSocketExecutor(insecure, "GET", u.String())
	if err != nil {
		t.Fatal(err)
	}
	const want = "Internal error occurred: error executing command in container: no such file"
	for name, executor := range map[string]remotecommand.Executor{"SPDY": spdy, "websocket": socket} {
		var out bytes.Buffer
		if err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out}); err == nil ||
			err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}

	frame := func(text string) []byte {
		payload := "\x03{" + text + "}"
		if len(payload) < 126 {
			return append([]byte{0x82, byte(len(payload))}, payload...)
		}
		return append([]byte{0x82, 126, byte(len(payload) >> 8), byte(len(payload))}, payload...)
	}
	for _, rest := range []string{`x"`, strings.Repeat("x", 60) + `"`, strings.Repeat("x", 3000) + `"`} {
		if got, is := withOnePrefix(frame(doubled + rest)); !is || !bytes.Equal(got, frame(single+rest)) {
			t.Errorf("%d bytes: %q, %t", len(rest), got, is)
		}
	}
	for name, other := range map[string][]byte{"one prefix": frame(single + `x"`),
		"output":            append([]byte{0x82, byte(len(doubled) + 1), 1}, doubled...),
		"a part of a frame": frame(doubled + `x"`)[:40], "nothing": {}, "an empty frame": {0x82, 0, 0, 0}} {
		if got, is := withOnePrefix(other); is {
			t.Errorf("%s was changed: %q", name, got)
		}
	}
}

// TestPortForward uses SPDY, and a websocket that carries SPDY, as kubectl does since 1.31.
func TestPortForward(t *testing.T) {
	srv := streamingServer(t)
	u, _ := url.Parse(srv.URL + "/portForward/ns/p")
	insecure := &rest.Config{Host: srv.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	transport, upgrader, err := spdy.RoundTripperFor(insecure)
	if err != nil {
		t.Fatal(err)
	}
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(u, insecure)
	if err != nil {
		t.Fatal(err)
	}

	for name, dialer := range map[string]httpstream.Dialer{"SPDY": spdy.NewDialer(upgrader,
		&http.Client{Transport: transport}, "POST", u), "websocket": tunnel} {
		stop, ready := make(chan struct{}), make(chan struct{})
		fw, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:80"}, stop, ready, io.Discard,
			io.Discard)
		if err != nil {
			t.Fatal(err)
		}

		done := make(chan error, 1)
		go func() { done <- fw.ForwardPorts() }()
		select {
		case <-ready:
		case err := <-done:
			t.Fatalf("%s: %v", name, err)
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: not ready", name)
		}

		ports, err := fw.GetPorts()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(conn, "ping")
		buf := make([]byte, 4)
		if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "ping" {
			t.Errorf("%s: %q %v", name, buf, err)
		}

		// half closed: the answer to what was sent still comes, and then the end
		_, _ = io.WriteString(conn, "the rest")
		_ = conn.(*net.TCPConn).CloseWrite()
		if rest, err := io.ReadAll(conn); err != nil || string(rest) != "the rest" {
			t.Errorf("%s, half closed: %q %v", name, rest, err)
		}
		conn.Close()
		close(stop)
		<-done
	}
}
