package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"porthole.dev/porthole/hns"
)

// form says which texts and numbers a setting may have. HNS takes any text for most of them, and puts nonsense into
// the endpoint.
type form struct {
	like string // an example, for the error
	is   func(string) bool
	list bool // several are possible: a list, or separated by commas
}

var (
	prefix = form{"a range such as 10.96.0.0/16", isPrefix, false}
	hosts  = form{"ranges or addresses such as 10.96.0.0/16",
		func(s string) bool { return isPrefix(s) || isAddr(s) }, true}
	addr   = form{"an address such as 10.0.0.1", isAddr, false}
	port   = form{"a port, 1 to 65535", isPort, false}
	ports  = form{"ports such as 80 or 8000-8010", isPorts, true}
	number = form{"a number that is not negative",
		func(s string) bool { _, err := strconv.ParseUint(s, 10, 64); return err == nil }, false}
	number16 = form{"a number from 0 to 65535",
		func(s string) bool { _, err := strconv.ParseUint(s, 10, 16); return err == nil }, false}
	protocol = form{"a protocol: a number such as 6, or TCP, UDP, ICMP, ANY", isProtocol, true}
	truth    = form{"true or false",
		func(s string) bool { _, err := strconv.ParseBool(strings.ToLower(s)); return err == nil }, false}
	action    = form{"Allow, Block or Pass", oneOf("allow", "block", "pass"), false}
	direction = form{"In or Out", oneOf("in", "out"), false}
	ruleType  = form{"Switch or Host", oneOf("switch", "host"), false}
)

// settingsOf are the settings of each type of policy that have a form, in lower case (hcsshim, hcn/hcnpolicy.go, and
// the names of HNS v1). A setting that is not here is passed on. required are those without which HNS has nothing to
// do.
var settingsOf = map[string]struct {
	forms    map[string]form
	required []string
}{
	"OutBoundNAT": {map[string]form{"exceptions": hosts, "destinations": hosts, "virtualip": addr, "flags": number,
		"maxportpoolusage": number16}, nil},
	"SDNRoute": {map[string]form{"destinationprefix": prefix, "nexthop": addr, "needencap": truth},
		[]string{"DestinationPrefix"}},
	"ProviderAddress": {map[string]form{"provideraddress": addr}, []string{"ProviderAddress"}},
	"ACL": {map[string]form{"action": action, "direction": direction, "ruletype": ruleType, "priority": number16,
		"protocols": protocol, "protocol": protocol,
		"localaddresses": hosts, "remoteaddresses": hosts, "localaddress": hosts, "remoteaddress": hosts,
		"localports": ports, "remoteports": ports, "localport": ports, "remoteport": ports}, nil},
	"QOS": {map[string]form{"maximumoutgoingbandwidthinbytes": number}, nil},
	"PortMapping": {map[string]form{"protocol": protocol, "internalport": port, "externalport": port,
		"vip": addr, "flags": number}, nil},
	"L4Proxy": {map[string]form{"ip": addr, "port": port, "protocol": protocol, "exceptionlist": hosts,
		"destination": prefix, "outboundnat": truth}, nil},
	"L4WFPPROXY":          {map[string]form{"inboundproxyport": port, "outboundproxyport": port}, nil},
	"InterfaceConstraint": {map[string]form{"interfaceindex": number, "interfaceluid": number}, nil},
	"EncapOverhead":       {map[string]form{"overhead": number16}, nil},
	"TierAcl":             {map[string]form{"direction": direction, "order": number16}, nil},
	"L2Driver":            {}, "PortName": {},
	"IOV": {map[string]form{"iovoffloadweight": number, "queuepairsrequested": number, "interruptmoderation": number},
		nil},
}

// checkPolicy returns an error that names the first setting of a policy that cannot be, with its value.
func checkPolicy(p hns.Policy) error {
	var settings map[string]json.RawMessage
	if err := json.Unmarshal(p.Settings, &settings); err != nil {
		return err
	}
	known := settingsOf[p.Type]
	for _, name := range known.required {
		if s := settings[name]; len(s) == 0 || string(s) == `""` || string(s) == "null" {
			return fmt.Errorf("%s is missing: want %s", name, known.forms[strings.ToLower(name)].like)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if f, has := known.forms[strings.ToLower(name)]; has {
			if err := f.check(name, settings[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// check returns an error if a value does not have the form. An empty one says nothing.
func (f form) check(name string, value json.RawMessage) error {
	texts, err := textsOf(value)
	if err != nil {
		return fmt.Errorf("%s %s is not %s", name, value, f.like)
	}
	for _, text := range texts {
		parts := []string{text}
		if f.list {
			parts = strings.Split(text, ",")
		}
		for _, part := range parts {
			if part = strings.TrimSpace(part); part != "" && !f.is(part) {
				return fmt.Errorf("%s %q is not %s", name, part, f.like)
			}
		}
	}
	return nil
}

// textsOf returns a text, a number, a truth value, or a list of them, as texts.
func textsOf(value json.RawMessage) ([]string, error) {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		list = []json.RawMessage{value}
	}
	var texts []string
	for _, one := range list {
		var any any
		if err := json.Unmarshal(one, &any); err != nil {
			return nil, err
		}
		switch v := any.(type) {
		case nil:
		case string:
			texts = append(texts, v)
		case float64, bool:
			texts = append(texts, string(one))
		default:
			return nil, fmt.Errorf("%s is no text", one)
		}
	}
	return texts, nil
}

func isPrefix(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil
}

func isAddr(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Zone() == ""
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// isPorts reports whether a text is a port or a range of ports. HNS takes 0 for any.
func isPorts(s string) bool {
	first, last, isRange := strings.Cut(s, "-")
	if !isRange {
		return isPort(s) || s == "0" || s == "*"
	}
	from, err1 := strconv.ParseUint(strings.TrimSpace(first), 10, 16)
	to, err2 := strconv.ParseUint(strings.TrimSpace(last), 10, 16)
	return err1 == nil && err2 == nil && from <= to
}

func isProtocol(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n <= 256 || oneOf("tcp", "udp", "icmp", "icmpv4", "icmpv6", "igmp", "any", "*")(s)
}

func oneOf(words ...string) func(string) bool {
	return func(s string) bool { return slices.Contains(words, strings.ToLower(s)) }
}

// checkFields returns an error that names the first field beside the policies whose address, range or port cannot be,
// with its value.
func (c *Config) checkFields() error {
	for _, f := range []struct {
		name, value string
		form
	}{{"ipMasqNetwork", c.IPMasqNetwork, prefix}} {
		if f.value != "" && !f.is(f.value) {
			return fmt.Errorf("%s %q is not %s", f.name, f.value, f.like)
		}
	}
	for i, r := range c.AdditionalRoutes {
		switch {
		case !isPrefix(r.Dst):
			return fmt.Errorf("additionalRoutes[%d].dst %q is not %s", i, r.Dst, prefix.like)
		case r.GW != "" && !isAddr(r.GW):
			return fmt.Errorf("additionalRoutes[%d].GW %q is not %s", i, r.GW, addr.like)
		}
	}
	for i, s := range c.DNS.Nameservers {
		if s != "" && !isAddr(s) {
			return fmt.Errorf("dns.nameservers[%d] %q is not %s", i, s, addr.like)
		}
	}
	for i, s := range c.RuntimeConfig.DNS.Servers {
		if s != "" && !isAddr(s) {
			return fmt.Errorf("runtimeConfig.dns.servers[%d] %q is not %s", i, s, addr.like)
		}
	}

	for i, m := range c.RuntimeConfig.PortMappings {
		switch at := fmt.Sprintf("runtimeConfig.portMappings[%d]", i); {
		case m.HostPort < 0 || m.HostPort > 65535:
			return fmt.Errorf("%s.hostPort %d is not %s", at, m.HostPort, port.like)
		case m.HostPort > 0 && (m.ContainerPort < 1 || m.ContainerPort > 65535):
			return fmt.Errorf("%s.containerPort %d is not %s", at, m.ContainerPort, port.like)
		case m.HostIP != "" && !isAddr(m.HostIP):
			return fmt.Errorf("%s.hostIP %q is not %s", at, m.HostIP, addr.like)
		}
	}
	return nil
}
