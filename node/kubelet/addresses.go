package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// nodeIPs returns the node's addresses. As in upstream's kubelet the first of these counts: the addresses that --node-ip gives, the
// node's name if it is an address, the name's address in DNS, the address of the interface with the default route. 0.0.0.0 and ::
// in --node-ip stand for the last of these, for IPv4 and IPv6.
func nodeIPs(text, name string) ([]string, error) {
	given, err := parseNodeIPs(text)
	if err != nil {
		return nil, err
	}

	var out []string
	for _, ip := range given {
		if ip.IsUnspecified() {
			if ip, err = routed(ip.To4() == nil); err != nil {
				return nil, err
			}
		}
		if err := usableIP(ip); err != nil {
			return nil, fmt.Errorf("--node-ip %s: %w", ip, err)
		}
		if !onThisHost(ip) {
			klog.Background().Info("The node's address is on none of its interfaces", "address", ip.String())
		}
		out = append(out, ip.String())
	}

	if len(out) > 0 {
		return out, nil
	}
	if ip := net.ParseIP(name); ip != nil {
		return []string{ip.String()}, nil
	}
	if ip := lookUp(name); ip != nil {
		return []string{ip.String()}, nil
	}

	ip, err := routed(false)
	if err != nil {
		ip, err = routed(true)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the node's address (say it with --node-ip): %w", err)
	}
	return []string{ip.String()}, nil
}

// parseNodeIPs reads one address, or one of each family.
func parseNodeIPs(text string) ([]net.IP, error) {
	var out []net.IP
	for _, s := range strings.Split(text, ",") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		ip := net.ParseIP(s)
		if ip == nil {
			return nil, fmt.Errorf("--node-ip: %q is not an address", s)
		}
		out = append(out, ip)
	}
	if len(out) > 2 || len(out) == 2 && (out[0].To4() == nil) == (out[1].To4() == nil) {
		return nil, fmt.Errorf("--node-ip: %q is neither one address nor one of each family", text)
	}
	return out, nil
}

func usableIP(ip net.IP) error {
	switch {
	case ip.IsLoopback():
		return errors.New("nodeIP can't be loopback address")
	case ip.IsMulticast():
		return errors.New("nodeIP can't be a multicast address")
	case ip.IsLinkLocalUnicast():
		return errors.New("nodeIP can't be a link-local unicast address")
	case ip.IsUnspecified():
		return errors.New("nodeIP can't be an all zeros address")
	}
	return nil
}

func onThisHost(ip net.IP) bool {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return true // unknown: do not refuse it
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}

// lookUp returns an address that DNS has for the name and that is on this host, preferably IPv4, or nil.
func lookUp(name string) (found net.IP) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupIP(ctx, "ip", name)
	if err != nil {
		return nil
	}

	for _, ip := range ips {
		if usableIP(ip) != nil || !onThisHost(ip) {
			continue
		}
		if ip.To4() != nil {
			return ip
		}
		if found == nil {
			found = ip
		}
	}
	return found
}

// routed returns the address from which this host reaches others. It sends no packet: it only asks the system for a route.
func routed(v6 bool) (net.IP, error) {
	network, far := "udp4", "192.0.2.1:9"
	if v6 {
		network, far = "udp6", "[2001:db8::1]:9"
	}
	conn, err := net.Dial(network, far)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).IP, nil
}
