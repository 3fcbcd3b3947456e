package healthcheck

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"porthole.dev/porthole/internal/httpserve"
	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/proxy/service"
)

// Options of a Server.
type Options struct {
	// Ranges of the addresses to listen on; none means every address of the node.
	Ranges []netip.Prefix
	// Addresses lists the node's own addresses; nil means those of its interfaces. It is only called if there are
	// Ranges.
	Addresses func() ([]netip.Addr, error)
	// Serving reports whether this node serves a service (namespace/name); nil means always. It must not block.
	Serving func(name string) bool
	// Failed is called once if a service's port cannot be opened, not at each attempt; nil: nobody is told.
	Failed func(name string, port uint16, err error)
	// Listen opens a socket; nil means net.Listen.
	Listen func(network, address string) (net.Listener, error)
	// RetryMin and RetryMax bound the time between attempts; 0 means 1 s and 30 s. Addresses are listed again every
	// RetryMax.
	RetryMin, RetryMax time.Duration
}

// Server keeps the ports open that services ask for. It is safe for concurrent use.
type Server struct {
	options Options
	changed wakeup.Signal

	mu     sync.Mutex
	wanted map[string]service.HealthCheck
	owners map[at]string // who answers on a socket

	// Only Run uses the rest.
	open   map[at]func() // stops the server
	failed map[at]string // the service for which it was reported that the socket cannot be opened
}

// New returns a server. It opens no port before Run.
func New(o Options) *Server {
	if o.Listen == nil {
		o.Listen = net.Listen
	}
	if o.Addresses == nil {
		o.Addresses = interfaceAddresses
	}
	if o.RetryMin == 0 {
		o.RetryMin = time.Second
	}
	if o.RetryMax == 0 {
		o.RetryMax = 30 * time.Second
	}
	return &Server{options: o, changed: wakeup.New(), wanted: map[string]service.HealthCheck{},
		owners: map[at]string{}, open: map[at]func(){}, failed: map[at]string{}}
}

// interfaceAddresses returns the addresses of the node's interfaces, IPv4 ones in their short form.
func interfaceAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing the node's addresses: %w", err)
	}
	var out []netip.Addr
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, addr.Unmap())
			}
		}
	}
	return out, nil
}

// Set replaces what a service (namespace/name) asks for; nil means nothing. It does not block. A new count is answered
// at once; ports are opened and closed by Run.
func (s *Server) Set(name string, check *service.HealthCheck) {
	s.mu.Lock()
	old, had := s.wanted[name]
	if check == nil || check.Port == 0 {
		delete(s.wanted, name)
	} else {
		s.wanted[name] = *check
	}
	changed := had != (check != nil) || check != nil && check.Port != old.Port
	s.mu.Unlock()
	if changed {
		s.changed.Wake()
	}
}

// Run opens and closes ports until ctx ends, and then closes all.
func (s *Server) Run(ctx context.Context) {
	defer func() {
		for socket := range s.open {
			s.shut(socket)
		}
	}()

	backoff := retry.Backoff{First: s.options.RetryMin, Max: s.options.RetryMax}
	failures := 0
	for {
		next := s.options.RetryMax
		if s.pass() {
			failures = 0
		} else {
			failures++
			next = backoff.Wait(failures)
		}

		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.changed:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// pass opens and closes sockets until they are as wanted. It returns false if one could not be opened.
func (s *Server) pass() bool {
	addrs := []netip.Addr{{}}
	if len(s.options.Ranges) > 0 {
		node, err := s.options.Addresses()
		if err != nil {
			return false // what is open stays
		}
		addrs = choose(s.options.Ranges, node)
	}

	now := map[at]string{}
	for socket := range s.open {
		now[socket] = ""
	}
	s.mu.Lock()
	todo, owners := plan(s.wanted, addrs, now)
	s.owners = owners
	s.mu.Unlock()

	for _, socket := range todo.close {
		s.shut(socket)
	}
	for socket := range s.failed {
		if owners[socket] != s.failed[socket] {
			delete(s.failed, socket)
		}
	}

	good := true
	for _, socket := range todo.open {
		if err := s.listen(socket); err != nil {
			good = false
			if name := owners[socket]; s.failed[socket] != name {
				s.failed[socket] = name
				if s.options.Failed != nil {
					s.options.Failed(name, socket.port, fmt.Errorf("opening health check port %s: %w", socket, err))
				}
			}
			continue
		}
		delete(s.failed, socket)
	}
	return good
}

// listen opens a socket and serves it until shut. The handler and the report of a later failure look up the service
// that owns the socket at that moment, because ports pass from one service to another while the socket stays open.
func (s *Server) listen(socket at) error {
	host := ""
	if socket.addr.IsValid() {
		host = socket.addr.String()
	}
	listener, err := s.options.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(int(socket.port))))
	if err != nil {
		return err
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { s.answer(w, socket) })
	s.open[socket] = httpserve.Start(listener, handler, func(err error) {
		if s.options.Failed == nil {
			return
		}
		s.mu.Lock()
		name := s.owners[socket]
		s.mu.Unlock()
		s.options.Failed(name, socket.port, fmt.Errorf("serving health checks on %s: %w", socket, err))
	})
	return nil
}

func (s *Server) shut(socket at) {
	s.open[socket]()
	delete(s.open, socket)
}

// body is upstream's answer (pkg/proxy/healthcheck/service_health.go).
type body struct {
	Service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"service"`
	LocalEndpoints      int  `json:"localEndpoints"`
	ServiceProxyHealthy bool `json:"serviceProxyHealthy"`
}

// answer answers as upstream's proxy does: 200 if the service has endpoints on this node and this proxy serves it,
// otherwise
//  503. Cloud load balancers send traffic by this code. The weight header is the number of endpoints, for those that
//     weigh nodes.
func (s *Server) answer(w http.ResponseWriter, socket at) {
	s.mu.Lock()
	name := s.owners[socket]
	check, wanted := s.wanted[name]
	s.mu.Unlock()
	b := body{LocalEndpoints: check.LocalEndpoints,
		ServiceProxyHealthy: wanted && (s.options.Serving == nil || s.options.Serving(name))}
	b.Service.Namespace, b.Service.Name, _ = strings.Cut(name, "/")
	code := http.StatusServiceUnavailable
	if b.LocalEndpoints > 0 && b.ServiceProxyHealthy {
		code = http.StatusOK
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(b.LocalEndpoints))
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(b) // an error means that the client is gone
}
