package lab

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
)

// API is one host's way to the API server: a reverse proxy that speaks plain HTTP to the host's programs. It can be
// cut, for this host only.
type API struct {
	// Addr is the API server's address for programs of the host.
	Addr netip.AddrPort

	netns   string
	handler http.Handler

	mu     sync.Mutex
	server *http.Server // nil while it is cut
}

// newAPI listens at a port of the router. only, if not empty, is the label that services and slices must carry to be
// seen.
func (l *Lab) newAPI(port uint16, only string) (*API, error) {
	server := l
	if l.o.ControlPlane != nil {
		server = l.o.ControlPlane
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: apiServer.String()})
			r.Out.Header.Set("Authorization", "Bearer "+token)
			if only != "" && (r.In.URL.Path == "/api/v1/services" ||
				r.In.URL.Path == "/apis/discovery.k8s.io/v1/endpointslices") {
				q := r.Out.URL.Query()
				q.Set("labelSelector", strings.TrimPrefix(q.Get("labelSelector")+","+only, ","))
				r.Out.URL.RawQuery = q.Encode()
			}
		},
		FlushInterval: -1, // watches stream
		Transport: &http.Transport{DialContext: testkit.DialIn(server.netns("sw")), ForceAttemptHTTP2: true,
			// its certificate is made by the API server itself, at each start
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		ErrorLog: log.New(io.Discard, "", 0), // a client that goes away is no news
	}
	a := &API{Addr: netip.AddrPortFrom(routerAddr, port), netns: l.netns("sw"), handler: proxy}
	return a, a.Restore()
}

// Cut ends all connections and refuses new ones, as if the API server were down. It can be repeated.
func (a *API) Cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.server != nil {
		_ = a.server.Close() // that is the meaning
		a.server = nil
	}
}

// Restore undoes Cut.
func (a *API) Restore() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.server != nil {
		return nil
	}
	var listener net.Listener
	err := platform.InNetns(a.netns, func() (err error) {
		listener, err = net.Listen("tcp4", a.Addr.String())
		return err
	})
	if err != nil {
		return fmt.Errorf("listening for a host's API calls: %w", err)
	}
	a.server = &http.Server{Handler: a.handler, ErrorLog: log.New(io.Discard, "", 0)}
	go func(s *http.Server) { _ = s.Serve(listener) }(a.server) // until Cut
	return nil
}
