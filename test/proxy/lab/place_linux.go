package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
)

// Place is somewhere in the Lab from where packets are sent, and where servers listen: a pod, a host, the outside.
type Place struct {
	Name  string
	Netns string // path
	Addr  netip.Addr
	Addr6 netip.Addr // invalid without IPv6
}

// Reply is what a Server says to a client.
type Reply struct {
	Name   string         // of the server; of one without a name, the address that the client asked
	Client netip.AddrPort // as the server saw it
}

// Server answers each TCP connection with one line, a Reply, and then sends back every line that it gets; and each
// UDP datagram with a Reply.
type Server struct {
	name    string
	closers []func() error

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

// Serve starts a server for TCP and UDP at a port of all the place's addresses.
func (p Place) Serve(port uint16) (*Server, error) {
	s := &Server{name: p.Name, conns: map[net.Conn]bool{}}
	for _, a := range []netip.Addr{p.Addr, p.Addr6} {
		if !a.IsValid() {
			continue
		}
		err := platform.InNetns(p.Netns, func() error {
			at := netip.AddrPortFrom(a, port)
			l, err := net.Listen("tcp", at.String())
			if err != nil {
				return err
			}
			s.closers = append(s.closers, l.Close)
			u, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
			if err != nil {
				return err
			}
			s.closers = append(s.closers, u.Close)
			go s.accept(l)
			go s.answer(u)
			return nil
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("serving %s: %w", p.Name, err), s.Close())
		}
	}

	return s, nil
}

// Close ends the server and its connections.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	for _, f := range s.closers {
		errs = append(errs, f())
	}
	s.closers = nil
	for c := range s.conns {
		c.Close()
	}
	return errors.Join(errs...)
}

func (s *Server) reply(client netip.AddrPort, asked net.Addr) string {
	name := s.name
	if name == "" {
		name, _, _ = net.SplitHostPort(asked.String())
	}
	return fmt.Sprintf("%s %s\n", name, netip.AddrPortFrom(client.Addr().Unmap(), client.Port()))
}

func (s *Server) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			c.Close()
		}
		s.conns[c] = true
		s.mu.Unlock()
		go s.talk(c)
	}
}

// talk answers one connection: first who it is and whom it sees, then every line as it came.
func (s *Server) talk(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	if _, err := c.Write([]byte(s.reply(c.RemoteAddr().(*net.TCPAddr).AddrPort(), c.LocalAddr()))); err != nil {
		return
	}
	lines := bufio.NewReader(c)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if _, err := c.Write([]byte(line)); err != nil {
			return
		}
	}
}

func (s *Server) answer(u *net.UDPConn) {
	buf := make([]byte, 2048)
	for {
		_, from, err := u.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error of an earlier answer
		}
		_, _ = u.WriteToUDPAddrPort([]byte(s.reply(from, u.LocalAddr())), from) // a client that has gone needs none
	}
}

// Ask connects to a Server over "tcp" or "udp" and returns what it says. Bounded by timeout.
func (p Place) Ask(network string, to netip.AddrPort, timeout time.Duration) (Reply, error) {
	c, err := p.dial(network, to, timeout)
	if err != nil {
		return Reply{}, err
	}
	defer c.Close()
	if network == "udp" {
		if _, err := c.Write([]byte("?\n")); err != nil {
			return Reply{}, err
		}
	}
	r, err := ReadReply(bufio.NewReader(c))
	if err != nil {
		return r, fmt.Errorf("%s asking %s %s: %w", p.Name, network, to, err)
	}
	return r, nil
}

func (p Place) dial(network string, to netip.AddrPort, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := testkit.DialIn(p.Netns)(ctx, network, to.String())
	if err != nil {
		return nil, fmt.Errorf("from %s: %w", p.Name, err)
	}
	_ = c.SetDeadline(time.Now().Add(timeout)) // an open connection takes deadlines
	return c, nil
}

// ReadReply reads what a Server says.
func ReadReply(r *bufio.Reader) (Reply, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return Reply{}, err
	}
	name, client, _ := strings.Cut(strings.TrimSpace(line), " ")
	addr, err := netip.ParseAddrPort(client)
	return Reply{Name: name, Client: addr}, err
}

// Conn is a TCP connection to a Server that stays open.
type Conn struct {
	Reply // of its server
	c     net.Conn
	r     *bufio.Reader
	n     int
}

// Open connects to a Server and keeps the connection. Close it.
func (p Place) Open(to netip.AddrPort, timeout time.Duration) (*Conn, error) {
	c, err := p.dial("tcp", to, timeout)
	if err != nil {
		return nil, err
	}
	conn := &Conn{c: c, r: bufio.NewReader(c)}
	if conn.Reply, err = ReadReply(conn.r); err != nil {
		c.Close()
		return nil, fmt.Errorf("%s asking %s: %w", p.Name, to, err)
	}
	return conn, nil
}

// Echo sends a line over the connection and waits for it to come back.
func (c *Conn) Echo(timeout time.Duration) error {
	c.n++
	want := fmt.Sprintf("line %d\n", c.n)
	if err := c.c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := c.c.Write([]byte(want)); err != nil {
		return fmt.Errorf("connection %s to %s: %w", c.c.LocalAddr(), c.Name, err)
	}
	got, err := c.r.ReadString('\n')
	if err != nil {
		return fmt.Errorf("connection %s to %s: %w", c.c.LocalAddr(), c.Name, err)
	}
	if got != want {
		return fmt.Errorf("connection %s to %s: %q came back for %q", c.c.LocalAddr(), c.Name, got, want)
	}
	return nil
}

// Close ends the connection.
func (c *Conn) Close() { c.c.Close() }
