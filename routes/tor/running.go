package tor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// inputs says, by format, what ReadRunning reads.
var inputs = map[string]string{
	"ip":   "the output of `ip -j route; ip -j -6 route`",
	"frr":  "the output of `vtysh -c 'show ip route json' -c 'show ipv6 route json'`",
	"bird": "the output of `birdc show route`",
	"json": "a list of {\"destination\": …, \"nextHop\": …}, as --print-router json writes it",
}

// ReadRunning reads the routes that a router has, as the command of the format prints them.
func ReadRunning(format string, in io.Reader) ([]Running, error) {
	read, ok := map[string]func(io.Reader) ([]Running, error){"ip": readIP, "frr": readFRR, "bird": readBIRD,
		"json": readJSON}[format]
	if !ok {
		return nil, fmt.Errorf("%q is not known; known: %s", format, strings.Join(Formats(), ", "))
	}
	list, err := read(in)
	if err != nil {
		return nil, fmt.Errorf("reading the router's routes: %w; the format %s wants %s", err, format, inputs[format])
	}
	return list, nil
}

// documents calls take for each JSON document of the input, of which there may be several, until the end.
func documents[T any](in io.Reader, take func(T) error) error {
	d := json.NewDecoder(in)
	for n := 0; ; n++ {
		var v T
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			if n == 0 {
				return errors.New("the input is empty")
			}
			return nil
		}
		if err == nil {
			err = take(v)
		}
		if err != nil {
			return err
		}
	}
}

// readIP reads `ip -j route`. Routes without a gateway have no next hop; those that are marked dead or linkdown are
// not used.
func readIP(in io.Reader) ([]Running, error) {
	type hop struct {
		Gateway string   `json:"gateway"`
		Flags   []string `json:"flags"`
	}
	type route struct {
		hop
		Dst      string `json:"dst"`
		Hops     []hop  `json:"nexthops"`
		Protocol string `json:"protocol"`
	}

	var list []Running
	err := documents(in, func(routes []route) error {
		for _, r := range routes {
			dst, err := parseRange(r.Dst)
			if err != nil {
				continue // default, and names of types such as "unreachable default"
			}
			run := Running{Dst: dst, Static: r.Protocol == "static"}
			for _, h := range append(r.Hops, r.hop) {
				if addr, err := netip.ParseAddr(h.Gateway); err == nil {
					run.Hops = append(run.Hops, addr)
				}
			}
			flags := strings.Join(r.Flags, " ")
			run.Idle = strings.Contains(flags, "dead") || strings.Contains(flags, "linkdown")
			list = append(list, run)
		}
		return nil
	})
	return list, err
}

// readFRR reads `show ip route json`: by range the routes of each protocol, of which the selected one is used.
func readFRR(in io.Reader) ([]Running, error) {
	type route struct {
		Protocol  string `json:"protocol"`
		Selected  bool   `json:"selected"`
		Installed bool   `json:"installed"`
		Hops      []struct {
			IP     string `json:"ip"`
			Active bool   `json:"active"`
		} `json:"nexthops"`
	}

	var list []Running
	err := documents(in, func(byRange map[string][]route) error {
		for text, routes := range byRange {
			dst, err := parseRange(text)
			if err != nil {
				return err
			}
			for _, r := range routes {
				for _, h := range r.Hops {
					if addr, err := netip.ParseAddr(h.IP); err == nil {
						list = append(list, Running{Dst: dst, Hops: []netip.Addr{addr},
							Idle: !r.Selected || !r.Installed || !h.Active, Static: r.Protocol == "static"})
					}
				}
			}
		}
		return nil
	})
	return list, err
}

// readBIRD reads `birdc show route`. A line with a range, or one that is indented and names a protocol, begins a
// route; the best of a range has a star. Lines "via ADDRESS" below it are its next hops.
func readBIRD(in io.Reader) ([]Running, error) {
	var list []Running
	var dst netip.Prefix
	ready := false
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		ready = ready || fields[0] == "BIRD" || fields[0] == "Table"
		if p, err := parseRange(fields[0]); err == nil && strings.Contains(fields[0], "/") {
			dst = p
		}
		switch {
		case strings.Contains(lines.Text(), " ["):
			list = append(list, Running{Dst: dst, Idle: !strings.Contains(lines.Text(), "] *")})
		case fields[0] == "via" && len(fields) > 1 && len(list) > 0:
			if addr, err := netip.ParseAddr(fields[1]); err == nil {
				last := &list[len(list)-1]
				last.Hops = append(last.Hops, addr)
			}
		}
	}

	if err := lines.Err(); err != nil || ready {
		return list, err
	}
	return nil, errors.New("this is not what birdc prints")
}

func readJSON(in io.Reader) ([]Running, error) {
	var list []Running
	err := documents(in, func(routes []exported) error {
		for _, r := range routes {
			dst, err := parseRange(r.Destination)
			if err != nil {
				return err
			}
			hop, err := netip.ParseAddr(r.NextHop)
			if err != nil {
				return err
			}
			list = append(list, Running{Dst: dst, Hops: []netip.Addr{hop}})
		}
		return nil
	})
	return list, err
}

// parseRange reads a range, or one address as a range of its own.
func parseRange(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}
