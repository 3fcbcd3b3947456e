package bgp

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DefaultASNumber is the AS of nodes that are given none. Calico uses the same.
const DefaultASNumber = 64512

// Defaults of the configuration. The specification of BGP suggests 90 s and a third of it (RFC 4271, 10).
const (
	defaultHold         = 90 * time.Second
	defaultRetry        = 5 * time.Second
	defaultRestart      = 30 * time.Second
	defaultBFDInterval  = 300 * time.Millisecond
	defaultBFDMultplier = 3
	defaultPort         = 179
)

// Config is what --bgp-config gives, the same file on all nodes. Its zero value announces to nobody. Parse checks it.
type Config struct {
	// ASNumber is the AS of the nodes; left out: 64512, Calico's. The annotation porthole.dev/bgp-as-number of a
	// node wins.
	ASNumber ASNumber `json:"asNumber"`
	// RouterID is an IPv4 address; left out: the node's address. It makes sense in the file of one node only.
	RouterID string `json:"routerID"`
	// ListenPort is where sessions of others arrive; left out: 179. With -1 the node opens all sessions itself.
	ListenPort int `json:"listenPort"`
	// FullMesh makes every other node of the cluster a peer.
	FullMesh bool `json:"fullMesh"`
	// NodeMeshPassword is that of the sessions between nodes, by TCP MD5 (Linux).
	NodeMeshPassword string `json:"nodeMeshPassword"`
	// Passwords are those that peers of annotations name: annotations can be read by everybody who can read nodes,
	// also with a join token.
	Passwords []Password `json:"passwords"`
	// AnnounceOnly installs nothing: packets to other nodes take the default route.
	AnnounceOnly bool `json:"announceOnly"`

	HoldTime        Duration        `json:"holdTime"`     // a session without a sign of life ends after it; left out: 90 s
	Keepalive       Duration        `json:"keepalive"`    // between signs of life; left out: a third of the hold time
	ConnectRetry    Duration        `json:"connectRetry"` // between attempts to open a session; left out: 5 s
	GracefulRestart GracefulRestart `json:"gracefulRestart"`
	BFD             BFD             `json:"bfd"`

	// AcceptPrefixes are ranges outside the cluster's from which routes are learnt too. 0.0.0.0/0 accepts the default
	// route only, and not on Windows.
	AcceptPrefixes []string `json:"acceptPrefixes"`
	// RouteReflectorClusterID is an IPv4 address, of nodes that have clients; left out: the router id.
	RouteReflectorClusterID string       `json:"routeReflectorClusterID"`
	Peers                   []PeerConfig `json:"peers"`
}

// PeerConfig is one peer of the configuration.
type PeerConfig struct {
	Node         string   `json:"node"`         // the only node that has this peer; left out: all have
	PeerIP       string   `json:"peerIP"`       // required
	ASNumber     ASNumber `json:"asNumber"`     // required: another AS (eBGP), or that of the nodes for a route reflector (iBGP)
	Port         int      `json:"port"`         // left out: 179
	Password     string   `json:"password"`     // TCP MD5 (Linux); in the file only, not in annotations
	PasswordRef  string   `json:"passwordRef"`  // the name of one of passwords
	Passive      bool     `json:"passive"`      // wait until the peer connects
	EBGPMultihop int      `json:"ebgpMultihop"` // hops to a peer of another AS; left out: 0, on the segment
	// how often our AS may be in a path: 1 with one AS for all nodes and a router without as-override
	AllowOwnAS int `json:"allowOwnAS"`
	// RouteReflectorClient: this node passes to the peer what it learns from others.
	RouteReflectorClient bool  `json:"routeReflectorClient"`
	BFD                  *bool `json:"bfd"` // left out: as bfd.enabled
}

// Password is a password of TCP MD5 that peers name.
type Password struct {
	Name     string `json:"name"`     // by which passwordRef of a peer names it
	Password string `json:"password"` // TCP MD5 (Linux)
}

// GracefulRestart is RFC 4724.
type GracefulRestart struct {
	Enabled     *bool    `json:"enabled"`     // RFC 4724; left out: true
	RestartTime Duration `json:"restartTime"` // how long peers keep the routes of a node that restarts; left out: 30 s
}

// BFD is RFC 5880, single hop.
type BFD struct {
	Enabled          bool     `json:"enabled"`          // RFC 5880; left out: false
	TransmitInterval Duration `json:"transmitInterval"` // left out: 300 ms
	ReceiveInterval  Duration `json:"receiveInterval"`  // left out: 300 ms
	Multiplier       int      `json:"multiplier"`       // packets that may be lost; left out: 3
}

// Duration is written as "90s" or as a number of seconds.
type Duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(data []byte) error {
	if seconds, err := strconv.ParseFloat(string(data), 64); err == nil {
		*d = Duration(seconds * float64(time.Second))
		return nil
	}
	text, err := strconv.Unquote(string(data))
	if err != nil {
		return fmt.Errorf("%s is not a duration: write 90s, or 90", data)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration: write 90s or 300ms", text)
	}
	*d = Duration(parsed)
	return nil
}

// ASNumber is written as 64512, or with a dot (RFC 5396) as "1.10".
type ASNumber uint32

// UnmarshalJSON implements json.Unmarshaler.
func (n *ASNumber) UnmarshalJSON(data []byte) error {
	as, err := parseAS(strings.Trim(string(data), `"`))
	*n = as
	return err
}

// parseAS reads an AS number in its two forms, 4200000000 and 64086.59904 (RFC 5396).
func parseAS(text string) (ASNumber, error) {
	high, low, dotted := strings.Cut(text, ".")
	if !dotted {
		as, err := strconv.ParseUint(text, 10, 32)
		if err != nil || as == 0 {
			return 0, fmt.Errorf("%q is not an AS number: 1 to 4294967295", text)
		}
		return ASNumber(as), nil
	}
	h, err1 := strconv.ParseUint(high, 10, 16)
	l, err2 := strconv.ParseUint(low, 10, 16)
	if err1 != nil || err2 != nil || h == 0 && l == 0 {
		return 0, fmt.Errorf("%q is not an AS number: with a dot, both parts are 0 to 65535", text)
	}
	return ASNumber(h<<16 | l), nil
}

// Parse reads a configuration, YAML or JSON. It is strict, and its errors name line and field.
func Parse(text []byte) (Config, error) {
	var c Config
	d, err := decode(text, "", &c)
	if err != nil {
		return c, err
	}
	return c, d.at(c.validate())
}

// Accepted returns the ranges of AcceptPrefixes that this host can learn routes to.
func (c Config) Accepted() []netip.Prefix {
	var ranges []netip.Prefix
	for _, text := range c.AcceptPrefixes {
		if p := netip.MustParsePrefix(text).Masked(); p.Bits() > 0 || defaultRouteImpossible() == "" {
			ranges = append(ranges, p)
		}
	}
	return ranges
}

// validate returns an error that names the first field that cannot be, and what can.
func (c Config) validate() error {
	if c.RouterID != "" && !isIPv4(c.RouterID) {
		return wrong("routerID", " %q is not an IPv4 address: leave it out for the node's address", c.RouterID)
	}
	if c.RouteReflectorClusterID != "" && !isIPv4(c.RouteReflectorClusterID) {
		return wrong("routeReflectorClusterID", " %q is not an IPv4 address like 1.0.0.1", c.RouteReflectorClusterID)
	}
	if c.ListenPort < -1 || c.ListenPort > 65535 {
		return wrong("listenPort", " %d is not a port: 1 to 65535, 0 for 179, -1 for none", c.ListenPort)
	}
	if err := c.validateTimes(); err != nil {
		return err
	}

	for i, text := range c.AcceptPrefixes {
		if p, err := netip.ParsePrefix(text); err != nil || !p.Addr().Is4() {
			return wrong(fmt.Sprintf("acceptPrefixes[%d]", i), " %q is not an IPv4 range like 10.250.0.0/16", text)
		}
	}
	for i, p := range c.Passwords {
		if p.Name == "" || len(p.Password) == 0 || len(p.Password) > maxPassword {
			return wrong(fmt.Sprintf("passwords[%d].password", i),
				" of %q has %d bytes: a name is needed, and TCP MD5 takes 1 to %d", p.Name, len(p.Password),
				maxPassword)
		}
	}
	for i, p := range c.Peers {
		if p.PasswordRef != "" && c.password(p.PasswordRef) == "" {
			return wrong(fmt.Sprintf("peers[%d].passwordRef", i), " %q is none of passwords", p.PasswordRef)
		}
	}
	return validatePeers("peers", c.Peers)
}

// validateTimes checks the times with their defaults, because each must fit the others.
func (c Config) validateTimes() error {
	hold := c.HoldTime.or(defaultHold)
	keepalive := c.Keepalive.or(c.HoldTime.or(defaultHold) / 3)
	restart := c.GracefulRestart.RestartTime.or(defaultRestart)
	switch {
	// The message OPEN has the hold time in whole seconds of 16 bits.
	case hold < 3*time.Second || hold > 65535*time.Second || hold%time.Second != 0:
		return wrong("holdTime", " %s: whole seconds, at least 3 s (RFC 4271, 4.2); use bfd to see a failure sooner",
			hold)
	case keepalive < time.Second || keepalive > hold/3 || keepalive%time.Second != 0:
		return wrong("keepalive", " %s: whole seconds, at least 1 s and at most a third of holdTime %s", keepalive,
			hold)
	case c.ConnectRetry.or(defaultRetry) < time.Second || c.ConnectRetry.or(defaultRetry)%time.Second != 0:
		return wrong("connectRetry", " %s: whole seconds, at least 1 s", c.ConnectRetry.or(0))
	case restart < time.Second || restart > 4095*time.Second:
		return wrong("gracefulRestart.restartTime", " %s: 1 s to 4095 s (RFC 4724, 3)", restart)
	case c.BFD.Multiplier < 0 || c.BFD.Multiplier > 255:
		return wrong("bfd.multiplier", " %d: 1 to 255", c.BFD.Multiplier)
	case c.BFD.TransmitInterval.or(defaultBFDInterval) < 10*time.Millisecond:
		return wrong("bfd.transmitInterval", " %s: at least 10 ms", c.BFD.TransmitInterval.or(0))
	case c.BFD.ReceiveInterval.or(defaultBFDInterval) < 10*time.Millisecond:
		return wrong("bfd.receiveInterval", " %s: at least 10 ms", c.BFD.ReceiveInterval.or(0))
	}
	return nil
}

// maxPassword is what TCP MD5 takes (TCP_MD5SIG_MAXKEYLEN of Linux).
const maxPassword = 80

// validatePeers checks a list of peers, of the configuration or of an annotation; field begins the
// errors.
func validatePeers(field string, peers []PeerConfig) error {
	var seen []string
	for i, p := range peers {
		at := fmt.Sprintf("%s[%d]", field, i)
		// One router may be there once for each node.
		key := p.Node + " " + p.PeerIP
		switch {
		case p.PeerIP == "":
			return wrong(at+".peerIP", " is required: the address of the router")
		case !isIPv4(p.PeerIP):
			return wrong(at+".peerIP", " %q is not an IPv4 address", p.PeerIP)
		case p.ASNumber == 0:
			return wrong(at+".asNumber",
				" of %s is required: the router's AS; the same as asNumber above for a route reflector (iBGP)",
				p.PeerIP)
		case p.Port < 0 || p.Port > 65535:
			return wrong(at+".port", " %d is not a port: 1 to 65535, 0 for 179", p.Port)
		case p.EBGPMultihop < 0 || p.EBGPMultihop > 255:
			return wrong(at+".ebgpMultihop", " %d: 1 to 255 hops", p.EBGPMultihop)
		case p.AllowOwnAS < 0 || p.AllowOwnAS > 10:
			return wrong(at+".allowOwnAS", " %d: 0 to 10", p.AllowOwnAS)
		case p.Password != "" && p.PasswordRef != "":
			return wrong(at+".passwordRef", " %q: there is a password beside it", p.PasswordRef)
		case len(p.Password) > maxPassword:
			return wrong(at+".password", " has %d bytes: TCP MD5 takes %d", len(p.Password), maxPassword)
		case slices.Contains(seen, key):
			return wrong(at, ": peer %s is there twice", p.PeerIP)
		}

		seen = append(seen, key)
	}
	return nil
}

// password returns the password of a name; "" if there is none.
func (c Config) password(name string) string {
	if i := slices.IndexFunc(c.Passwords, func(p Password) bool { return p.Name == name }); i >= 0 {
		return c.Passwords[i].Password
	}
	return ""
}

// or returns the duration, or other if it is not given.
func (d Duration) or(other time.Duration) time.Duration {
	if d == 0 {
		return other
	}
	return time.Duration(d)
}

func isIPv4(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && a.Is4()
}
