// Command nslookup is the nslookup.exe of emulated Windows hosts, which Wine has not: it asks a DNS server for a name
// or an address, as probes and people do in containers. It has no dialogue.
//
//	nslookup [-type=A|AAAA|ANY|CNAME|MX|NS|PTR|SRV|TXT] NAME [SERVER]
package main

//lint:file-ignore ST1005 the words are those of Windows' nslookup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"
)

func main() {
	q, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if !q.run(context.Background(), os.Stdout, os.Stderr) {
		os.Exit(1)
	}
}

// query is what the arguments ask for.
type query struct {
	kind, name, server string
	limit              time.Duration
}

const usage = "Usage:\n   nslookup [-opt ...] host          # just look up 'host' using default server\n   nslookup [-opt ...] host server   # just look up 'host' using 'server'"

var errUsage = errors.New(usage)

// parse reads the arguments. Options that change nothing here are accepted.
func parse(args []string) (q query, err error) {
	q.limit = 10 * time.Second
	var words []string
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimLeft(arg, "-")), "=")
		switch {
		case !strings.HasPrefix(arg, "-"):
			words = append(words, arg)
		case name == "type" || name == "querytype" || name == "q" || name == "ty":
			q.kind = strings.ToUpper(value)
		case name == "timeout":
			if q.limit, err = time.ParseDuration(value + "s"); err != nil || q.limit <= 0 {
				return q, fmt.Errorf("*** Invalid option: %s\n%s", arg, usage)
			}
		case name != "debug" && name != "d2" && name != "recurse" && name != "norecurse" && name != "vc" &&
			name != "nosearch" && name != "search" && name != "retry":
			return q, fmt.Errorf("*** Invalid option: %s\n%s", arg, usage)
		}
	}

	if len(words) == 0 || len(words) > 2 {
		return q, errUsage
	}
	if q.name = words[0]; len(words) == 2 {
		q.server = words[1]
	}
	switch q.kind {
	case "", "A", "AAAA", "A+AAAA", "ANY", "CNAME", "MX", "NS", "PTR", "SRV", "TXT":
		return q, nil
	}
	return q, fmt.Errorf("unknown query type: %s", q.kind)
}

// run asks, and writes what it is answered. It reports whether there was an answer.
func (q query) run(ctx context.Context, out, errs io.Writer) bool {
	ctx, cancel := context.WithTimeout(ctx, q.limit)
	defer cancel()
	server := ""
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if q.server != "" {
			host, port := q.server, "53"
			if a, err := netip.ParseAddrPort(q.server); err == nil { // the port is ours: tests have no other
				host = a.Addr().String()
				port = fmt.Sprint(a.Port())
			}
			address = net.JoinHostPort(host, port)
		}
		server, _, _ = net.SplitHostPort(address)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}

	lines, err := q.answer(ctx, r)
	fmt.Fprintf(out, "Server:  UnKnown\r\nAddress:  %s\r\n\r\n", server)
	if err != nil {
		var dns *net.DNSError
		switch {
		case errors.As(err, &dns) && dns.IsNotFound:
			fmt.Fprintf(errs, "*** UnKnown can't find %s: Non-existent domain\r\n", q.name)
		case errors.As(err, &dns) && dns.IsTimeout, ctx.Err() != nil:
			fmt.Fprintf(errs, "DNS request timed out.\r\n*** Request to UnKnown timed-out\r\n")
		default:
			fmt.Fprintf(errs, "*** UnKnown can't find %s: No response from server\r\n", q.name)
		}
		return false
	}
	fmt.Fprint(out, strings.Join(lines, "\r\n"), "\r\n\r\n")
	return true
}

// answer is what is printed of the answer.
func (q query) answer(ctx context.Context, r *net.Resolver) (lines []string, err error) {
	kind := q.kind
	if addr, e := netip.ParseAddr(q.name); e == nil && (kind == "" || kind == "PTR") {
		names, err := r.LookupAddr(ctx, addr.String())
		for _, name := range names {
			lines = append(lines, "Name:    "+strings.TrimSuffix(name, "."), "Address:  "+addr.String())
		}
		return lines, err
	}

	switch kind {
	case "CNAME":
		name, err := r.LookupCNAME(ctx, q.name)
		return []string{q.name + "\tcanonical name = " + strings.TrimSuffix(name, ".")}, err
	case "MX":
		all, err := r.LookupMX(ctx, q.name)
		for _, m := range all {
			lines = append(lines, fmt.Sprintf("%s\tMX preference = %d, mail exchanger = %s", q.name, m.Pref,
				strings.TrimSuffix(m.Host, ".")))
		}
		return lines, err
	case "NS":
		all, err := r.LookupNS(ctx, q.name)
		for _, n := range all {
			lines = append(lines, fmt.Sprintf("%s\tnameserver = %s", q.name, strings.TrimSuffix(n.Host, ".")))
		}
		return lines, err
	case "SRV":
		_, all, err := r.LookupSRV(ctx, "", "", q.name)
		for _, s := range all {
			lines = append(lines, q.name+"\tSRV service location:", fmt.Sprintf("\t  priority       = %d", s.Priority),
				fmt.Sprintf("\t  weight         = %d", s.Weight),
				fmt.Sprintf("\t  port           = %d", s.Port),
				"\t  svr hostname   = "+strings.TrimSuffix(s.Target, "."))
		}
		return lines, err
	case "TXT":
		all, err := r.LookupTXT(ctx, q.name)
		for _, text := range all {
			lines = append(lines, q.name+"\ttext =\r\n\r\n\t\""+text+"\"")
		}
		return lines, err
	}
	return q.addresses(ctx, r)
}

// addresses looks a name up.
func (q query) addresses(ctx context.Context, r *net.Resolver) ([]string, error) {
	network := map[string]string{"A": "ip4", "AAAA": "ip6"}[q.kind]
	if network == "" {
		network = "ip"
	}
	found, err := r.LookupNetIP(ctx, network, q.name)
	if err != nil {
		return nil, err
	}

	name := q.name
	if canonical, err := r.LookupCNAME(ctx, q.name); err == nil {
		name = strings.TrimSuffix(canonical, ".")
	}
	lines := []string{"Name:    " + name}
	for i, a := range found {
		switch {
		case len(found) == 1:
			lines = append(lines, "Address:  "+a.Unmap().String())
		case i == 0:
			lines = append(lines, "Addresses:  "+a.Unmap().String())
		default:
			lines = append(lines, "\t  "+a.Unmap().String())
		}
	}
	return lines, nil
}
