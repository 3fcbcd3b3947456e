package networks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

// probe is how a request of ping is made; the zero probe is a small packet.
type probe struct {
	ttl  int // 0: the system's
	size int // of the IP packet, which must not be cut; 0: small, and it may be
}

// answer is what came back of a request of ping.
type answer struct {
	from   netip.Addr // who answered; zero: nobody
	hop    bool       // it says that the packet's TTL ended there
	tooBig bool       // the own system or a router says that the packet is too big
	failed error      // of the own system
}

// err returns why the target did not answer; nil if it did.
func (a answer) err() error {
	switch {
	case a.tooBig:
		return fmt.Errorf("the packet is too big (says %s)", a.who())
	case a.failed != nil:
		return a.failed
	case !a.from.IsValid():
		return errors.New("no answer to ICMP")
	case a.hop:
		return fmt.Errorf("the packet's TTL ended at %s", a.from)
	}
	return nil
}

// who is who answered, or "nobody".
func (a answer) who() string {
	if !a.from.IsValid() {
		return "nobody"
	}
	return a.from.String()
}

var sequence atomic.Uint32

// icmp are the types of ICMP by family.
type icmp struct{ request, reply, exceeded, unreachable, tooBig byte }

var (
	icmp4 = icmp{8, 0, 11, 3, 3}
	icmp6 = icmp{128, 129, 3, 1, 2}
)

// hop is ping with a TTL that ends on the way. Like traceroute it asks three times: a system sends one client only so
// many such answers (Linux: icmp_ratelimit, one each second).
func hop(netns string, to netip.Addr, ttl int) (a answer) {
	for range 3 {
		if a = ping(netns, to, probe{ttl: ttl}); a.from.IsValid() {
			return a
		}
	}
	return a
}

// ping sends a request from the network namespace at path, and waits 2 s for its answer.
func ping(path string, to netip.Addr, p probe) (a answer) {
	a.failed = platform.InNetns(path, func() error {
		fd, err := openICMP(to, p)
		if err != nil {
			return err
		}
		file := os.NewFile(uintptr(fd), "icmp")
		conn, err := net.FilePacketConn(file)
		file.Close()
		if err != nil {
			return err
		}
		defer conn.Close()

		number := uint16(sequence.Add(1))
		if _, err := conn.WriteTo(request(to, number, p.size), &net.IPAddr{IP: to.AsSlice()}); err != nil {
			if a.tooBig = errors.Is(err, unix.EMSGSIZE); a.tooBig {
				return nil
			}
			return err
		}
		return a.read(conn, to, number)
	})
	return a
}

func openICMP(to netip.Addr, p probe) (int, error) {
	family, protocol, level, hops, mtu, do := unix.AF_INET, unix.IPPROTO_ICMP, unix.IPPROTO_IP, unix.IP_TTL,
		unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE
	if to.Is6() {
		family, protocol, level, hops, mtu, do = unix.AF_INET6, unix.IPPROTO_ICMPV6, unix.IPPROTO_IPV6,
			unix.IPV6_UNICAST_HOPS, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return -1, err
	}
	if p.ttl > 0 {
		err = unix.SetsockoptInt(fd, level, hops, p.ttl)
	}
	if p.size > 0 {
		err = errors.Join(err, unix.SetsockoptInt(fd, level, mtu, do))
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// request returns the ICMP part of a request whose IP packet has that size. The kernel adds the checksum of ICMPv6.
func request(to netip.Addr, number uint16, size int) []byte {
	header, kind := 20, icmp4.request
	if to.Is6() {
		header, kind = 40, icmp6.request
	}
	packet := make([]byte, max(16, size-header))
	packet[0] = kind
	binary.BigEndian.PutUint16(packet[4:], uint16(os.Getpid()))
	binary.BigEndian.PutUint16(packet[6:], number)
	if to.Is4() {
		var sum uint32
		for i := 0; i < len(packet); i += 2 {
			word := uint32(packet[i]) << 8
			if i+1 < len(packet) {
				word |= uint32(packet[i+1])
			}
			sum += word
		}
		sum = sum>>16 + sum&0xffff
		binary.BigEndian.PutUint16(packet[2:], ^uint16(sum+sum>>16))
	}
	return packet
}

// read waits for the answer to the request of that number.
func (a *answer) read(conn net.PacketConn, to netip.Addr, number uint16) error {
	if err := conn.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	kinds, header := icmp4, 20
	if to.Is6() {
		kinds, header = icmp6, 40
	}
	var id [4]byte
	binary.BigEndian.PutUint16(id[:], uint16(os.Getpid()))
	binary.BigEndian.PutUint16(id[2:], number)

	buffer := make([]byte, 10000)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		packet := buffer[:n] // Go takes the header of IPv4 away
		addr, _ := netip.AddrFromSlice(from.(*net.IPAddr).IP)
		if n < 8 {
			continue
		}
		inner := packet[8:] // of errors: the packet that they are about
		about := len(inner) >= header+8 && bytes.Equal(inner[header+4:header+8], id[:])
		switch {
		case packet[0] == kinds.reply && bytes.Equal(packet[4:8], id[:]):
			a.from = addr.Unmap()
			return nil
		case packet[0] == kinds.exceeded && about:
			a.from, a.hop = addr.Unmap(), true
			return nil
		case packet[0] == kinds.tooBig && about && (to.Is6() || packet[1] == 4):
			a.from, a.tooBig = addr.Unmap(), true
			return nil
		case packet[0] == kinds.unreachable && about:
			return fmt.Errorf("%s says that %s is unreachable (code %d)", addr, to, packet[1])
		}
	}
}

// dialEcho exchanges size bytes with an echo server, from a namespace of the lab.
func dialEcho(netns, network, address string, size int) error {
	var conn net.Conn
	err := platform.InNetns(platform.NetnsPath(netns), func() (err error) {
		conn, err = net.DialTimeout(network, address, 3*time.Second)
		return err
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(8 * time.Second)); err != nil {
		return err
	}

	message := bytes.Repeat([]byte("0123456789abcde\n"), size/16)
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(message)
		sent <- err
	}()
	answer := make([]byte, len(message))
	if n, err := io.ReadFull(conn, answer); err != nil {
		return fmt.Errorf("%d of %d bytes came back: %w", n, len(message), err)
	}
	if !bytes.Equal(answer, message) {
		return errors.New("other bytes came back")
	}
	return <-sent
}

// nodeEchoPort is the port of the echo servers that serveOnNodes starts.
const nodeEchoPort = 7007

// serveOnNodes starts an echo server of TCP and UDP on each node, until the test ends.
func (f *fleet) serveOnNodes() {
	f.t.Helper()
	for name, addr := range f.nodes {
		var tcp net.Listener
		var udp net.PacketConn
		err := platform.InNetns(platform.NetnsPath("porthole-"+name), func() (err error) {
			if tcp, err = net.Listen("tcp", netip.AddrPortFrom(addr, nodeEchoPort).String()); err != nil {
				return err
			}
			// the answers must come from there
			udp, err = net.ListenPacket("udp", netip.AddrPortFrom(addr, nodeEchoPort).String())
			return err
		})
		if err != nil {
			f.t.Fatalf("echo server on %s: %v", name, err)
		}
		f.t.Cleanup(func() { tcp.Close(); udp.Close() })

		go func() {
			for {
				c, err := tcp.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					io.Copy(c, c)
				}()
			}
		}()
		go func() {
			buffer := make([]byte, 64<<10)
			for {
				n, from, err := udp.ReadFrom(buffer)
				if err != nil {
					return
				}
				udp.WriteTo(buffer[:n], from)
			}
		}()
	}
}
