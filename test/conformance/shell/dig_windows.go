package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"mvdan.cc/sh/v3/interp"
)

// digAsked is what the arguments of dig say.
// The zero values of the flags are dig's defaults but for answer.
type digAsked struct {
	name   string
	kind   dnsmessage.Type
	server string // address; empty: the host's
	port   int
	tcp    bool
	search bool // try the host's suffixes too
	short  bool // the data of answers alone
	quiet  bool // nothing but what +answer asks for
	answer bool
	limit  time.Duration // of one try
	tries  int
}

// Types in lower case are found too.
var digTypes = map[string]dnsmessage.Type{
	"A": dnsmessage.TypeA, "AAAA": dnsmessage.TypeAAAA, "CNAME": dnsmessage.TypeCNAME, "MX": dnsmessage.TypeMX,
	"NS":  dnsmessage.TypeNS,
	"PTR": dnsmessage.TypePTR, "SOA": dnsmessage.TypeSOA, "SRV": dnsmessage.TypeSRV, "TXT": dnsmessage.TypeTXT,
}

// digOptions parses dig's words, which come in any order. The defaults are dig's own.
func digOptions(args []string) (digAsked, error) {
	o := digAsked{kind: dnsmessage.TypeA, port: 53, answer: true, limit: 5 * time.Second, tries: 3}
	for i := 0; i < len(args); i++ {
		word := args[i]
		var err error
		switch {
		case strings.HasPrefix(word, "+"):
			err = o.set(word[1:])
		case strings.HasPrefix(word, "@"):
			o.server = word[1:]
		case slices.Contains([]string{"-p", "-x", "-t"}, word) && i+1 < len(args):
			i++
			err = o.take(word, args[i])
		case strings.HasPrefix(word, "-"):
			err = fmt.Errorf("option %s is not known here", word)
		// The class IN is the only one.
		case strings.EqualFold(word, "IN"):
		case digTypes[strings.ToUpper(word)] != 0:
			o.kind = digTypes[strings.ToUpper(word)]
		default:
			o.name = word
		}
		if err != nil {
			return o, err
		}
	}

	if o.name == "" {
		return o, errors.New("a name is needed")
	}
	return o, nil
}

// take is an option that has a value of its own.
func (o *digAsked) take(option, value string) (err error) {
	switch option {
	case "-p":
		o.port, err = strconv.Atoi(value)
	case "-x":
		o.kind = dnsmessage.TypePTR
		o.name, err = reverseName(value)
	case "-t":
		if o.kind = digTypes[strings.ToUpper(value)]; o.kind == 0 {
			err = fmt.Errorf("records of type %s are not known here", value)
		}
	}
	return err
}

// set is an option that begins with +.
func (o *digAsked) set(option string) error {
	key, value, _ := strings.Cut(option, "=")
	// "no" before an option turns it off.
	key, off := strings.CutPrefix(key, "no")
	var err error
	switch key {
	case "tcp", "vc":
		o.tcp = !off
	case "search":
		o.search = !off
	case "short":
		o.short = !off
	case "answer":
		o.answer = !off
	case "all":
		// +noall leaves everything out, and +answer after it brings the answers back.
		o.quiet, o.answer = off, !off
	case "time":
		var seconds int
		seconds, err = strconv.Atoi(value)
		o.limit = time.Duration(seconds) * time.Second
	case "tries":
		o.tries, err = strconv.Atoi(value)
	default:
		err = fmt.Errorf("option +%s is not known here", option)
	}

	return err
}

// reverseName is the name whose PTR record tells an address's name.
func reverseName(address string) (string, error) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return "", err
	}
	var labels []string
	if ip.Is4() {
		for _, b := range ip.As4() {
			labels = append(labels, strconv.Itoa(int(b)))
		}
		slices.Reverse(labels)
		return strings.Join(labels, ".") + ".in-addr.arpa.", nil
	}
	for _, b := range ip.As16() {
		labels = append(labels, strconv.FormatUint(uint64(b>>4), 16), strconv.FormatUint(uint64(b&15), 16))
	}
	slices.Reverse(labels)
	return strings.Join(labels, ".") + ".ip6.arpa.", nil
}

// names to ask for, in turn: one with a dot in it as it is before the suffixes are tried, one without after them.
func (o digAsked) names(suffixes []string) []string {
	asIs := strings.TrimSuffix(o.name, ".") + "."
	if !o.search || strings.HasSuffix(o.name, ".") {
		return []string{asIs}
	}
	var all []string
	for _, suffix := range suffixes {
		all = append(all, asIs+strings.Trim(suffix, ".")+".")
	}
	if strings.Contains(o.name, ".") {
		return append([]string{asIs}, all...)
	}
	return append(all, asIs)
}

// dig asks a DNS server, the host's own unless one is named, and prints its answers. It succeeds if a server answered,
// whatever that was.
// An answer without records leads to the next name, until the last.
func dig(ctx context.Context, c interp.HandlerContext, args []string) error {
	o, err := digOptions(args)
	if err != nil {
		return err
	}
	servers := []string{o.server}
	suffixes := []string(nil)
	if o.server == "" {
		if servers, err = dnsServers(); err != nil {
			return err
		}
	}

	if o.search {
		if suffixes, err = dnsSuffixes(); err != nil {
			return err
		}
	}

	// The last name's answer is printed, whatever it holds.
	for i, name := range o.names(suffixes) {
		got, err := o.ask(ctx, servers, name)
		if err != nil {
			fmt.Fprintf(c.Stdout, ";; %v\n", err)
			return interp.ExitStatus(9) // dig's own, where no server answered
		}
		if len(got.Answers) > 0 || i == len(o.names(suffixes))-1 {
			o.print(c.Stdout, got)
			return nil
		}
	}

	return nil
}

// ask tries each server, and each as often as it may.
func (o digAsked) ask(ctx context.Context, servers []string, name string) (*dnsmessage.Message, error) {
	last := errors.New("this host has no DNS server")
	for range o.tries {
		for _, server := range servers {
			address := net.JoinHostPort(server, strconv.Itoa(o.port))
			got, err := o.exchange(ctx, address, name, o.tcp)
			// An answer that was cut short over UDP is asked for again over TCP.
			if err == nil && got.Truncated && !o.tcp {
				got, err = o.exchange(ctx, address, name, true)
			}
			if err == nil {
				return got, nil
			}
			last = err
		}
	}
	return nil, last
}

// exchange sends one question and waits for its answer.
// Answers to other questions, of which an earlier try may have some on the way, are passed over.
func (o digAsked) exchange(ctx context.Context, address, name string, tcp bool) (*dnsmessage.Message, error) {
	asked, err := dnsmessage.NewName(name)
	if err != nil {
		return nil, fmt.Errorf("name %s: %w", name, err)
	}
	question := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: uint16(rand.Uint32()), RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: asked, Type: o.kind, Class: dnsmessage.ClassINET}},
	}
	packet, err := question.Pack()
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", name, err)
	}

	network := "udp"
	if tcp {
		network = "tcp"
		// Over TCP the length comes first.
		packet = append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)
	}
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()

	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	if _, err := conn.Write(packet); err != nil {
		return nil, err
	}

	for {
		got, err := readAnswer(conn, tcp)
		if err != nil || got.ID == question.ID && got.Response {
			return got, err
		}
	}
}

// readAnswer reads one message. Over TCP its length comes first, in two bytes (RFC 1035, 4.2.2).
func readAnswer(conn net.Conn, tcp bool) (*dnsmessage.Message, error) {
	buf := make([]byte, 64<<10)
	if !tcp {
		n, err := conn.Read(buf)
		if err != nil {
			return nil, err
		}
		buf = buf[:n]
	} else {
		if _, err := io.ReadFull(conn, buf[:2]); err != nil {
			return nil, err
		}
		buf = buf[:binary.BigEndian.Uint16(buf)]
		if _, err := io.ReadFull(conn, buf); err != nil {
			return nil, err
		}
	}
	var got dnsmessage.Message
	if err := got.Unpack(buf); err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", conn.RemoteAddr(), err)
	}
	return &got, nil
}

// print prints as much of an answer as the options ask for.
func (o digAsked) print(to io.Writer, got *dnsmessage.Message) {
	if !o.short && !o.quiet {
		fmt.Fprintf(to, ";; status: %s\n", strings.TrimPrefix(got.RCode.String(), "RCode"))
	}
	for _, r := range got.Answers {
		data := dataOf(r.Body)
		switch {
		case o.short:
			fmt.Fprintln(to, data)
		case o.answer:
			fmt.Fprintf(to, "%s\t%d\tIN\t%s\t%s\n", r.Header.Name, r.Header.TTL,
				strings.TrimPrefix(r.Header.Type.String(), "Type"), data)
		}
	}
}

// dataOf is what a record says, as in a zone file.
func dataOf(body dnsmessage.ResourceBody) string {
	switch r := body.(type) {
	case *dnsmessage.AResource:
		return netip.AddrFrom4(r.A).String()
	case *dnsmessage.AAAAResource:
		return netip.AddrFrom16(r.AAAA).String()
	case *dnsmessage.CNAMEResource:
		return r.CNAME.String()
	case *dnsmessage.MXResource:
		return fmt.Sprintf("%d %s", r.Pref, r.MX)
	case *dnsmessage.NSResource:
		return r.NS.String()
	case *dnsmessage.PTRResource:
		return r.PTR.String()
	case *dnsmessage.SOAResource:
		return fmt.Sprintf("%s %s %d %d %d %d %d", r.NS, r.MBox, r.Serial, r.Refresh, r.Retry, r.Expire, r.MinTTL)
	case *dnsmessage.SRVResource:
		return fmt.Sprintf("%d %d %d %s", r.Priority, r.Weight, r.Port, r.Target)
	case *dnsmessage.TXTResource:
		quoted := make([]string, len(r.TXT))
		for i, text := range r.TXT {
			quoted[i] = strconv.Quote(text)
		}
		return strings.Join(quoted, " ")
	}

	return fmt.Sprintf("%v", body)
}

// dnsServers are those of the host's adapters.
func dnsServers() ([]string, error) {
	// The size is a guess, which the call corrects in size if it is too small.
	size := uint32(32 << 10)
	var buf []byte
	for {
		buf = make([]byte, size)
		err := windows.GetAdaptersAddresses(windows.AF_UNSPEC,
			windows.GAA_FLAG_SKIP_UNICAST|windows.GAA_FLAG_SKIP_ANYCAST|windows.GAA_FLAG_SKIP_MULTICAST, 0,
			(*windows.IpAdapterAddresses)(unsafe.Pointer(&buf[0])), &size)
		if err == nil {
			break
		}
		if !errors.Is(err, windows.ERROR_BUFFER_OVERFLOW) {
			return nil, fmt.Errorf("looking for the host's DNS servers: %w", err)
		}
	}

	var servers []string
	for a := (*windows.IpAdapterAddresses)(unsafe.Pointer(&buf[0])); a != nil && size > 0; a = a.Next {
		for s := a.FirstDnsServerAddress; s != nil; s = s.Next {
			if address := s.Address.IP().String(); !slices.Contains(servers, address) {
				servers = append(servers, address)
			}
		}
	}
	return servers, nil
}

// tcpipKey holds the settings that ipconfig shows for the host; below Interfaces are those of each
// adapter.
const tcpipKey = `System\CurrentControlSet\Services\Tcpip\Parameters`

// dnsSuffixes are those of the host and then those of its adapters.
func dnsSuffixes() ([]string, error) {
	suffixes := suffixesAt(tcpipKey)
	adapters, err := registry.OpenKey(registry.LOCAL_MACHINE, tcpipKey+`\Interfaces`, registry.ENUMERATE_SUB_KEYS)
	if errors.Is(err, registry.ErrNotExist) {
		return suffixes, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the host's DNS suffixes: %w", err)
	}
	defer adapters.Close()
	names, err := adapters.ReadSubKeyNames(-1)
	if err != nil {
		return nil, fmt.Errorf("looking for the host's DNS suffixes: %w", err)
	}
	for _, name := range names {
		suffixes = append(suffixes, suffixesAt(tcpipKey+`\Interfaces\`+name)...)
	}
	return suffixes, nil
}

// suffixesAt are those that a key has; none where it has no list.
func suffixesAt(path string) []string {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE)
	if err != nil {
		return nil
	}
	defer key.Close()
	list, _, err := key.GetStringValue("SearchList")
	if err != nil || list == "" {
		return nil
	}
	return strings.Split(list, ",")
}
