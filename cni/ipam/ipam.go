// Package ipam gives out addresses of this node's range. Its files are those of the standard host-local plugin: one
// file per address, named after it, with the container and the interface as content. So a node can change from one to
// the other. It runs inside our plugin, which saves a process per pod. It is safe for concurrent use by several
// processes.
package ipam

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

// Range is a range of addresses. Start and End default to the first and last usable address.
type Range struct {
	Subnet  string `json:"subnet"`
	Start   string `json:"rangeStart"`
	End     string `json:"rangeEnd"`
	Gateway string `json:"gateway"`
}

// Config is the ipam part of a network configuration: ranges, or one range written inline.
type Config struct {
	Type    string    `json:"type"`
	DataDir string    `json:"dataDir"`
	Ranges  [][]Range `json:"ranges"`
	// Routes as wincni and host-local write them: see Pool.RouteGateway.
	Routes []struct {
		Dst string `json:"dst"`
		GW  string `json:"gw"`
	} `json:"routes"`
	Range
}

// DefaultDir is the default folder of host-local, on Windows on the system's drive.
const DefaultDir = "/var/lib/cni/networks"

// DirOf returns the folder of a network: that of its addresses, or of what else a plugin keeps of a network without
// any. It never fails: what is wrong with raw is said by Open.
func DirOf(raw json.RawMessage, network string) string {
	var c Config
	if json.Unmarshal(raw, &c) != nil {
		c.DataDir = ""
	}
	return c.dir(network)
}

func (c Config) dir(network string) string {
	if c.DataDir == "" {
		c.DataDir = DefaultDir
	}
	return filepath.Join(onDrive(c.DataDir, systemDrive()), network)
}

// onDrive returns the path of a folder, on that drive if the path has none. Windows would take the drive that a
// program was started on: plugins and `porthole routes`, whose parents differ, are to mean the same folder. drive is
// empty on systems without.
func onDrive(folder, drive string) string {
	if drive == "" || !strings.HasPrefix(folder, "/") && !strings.HasPrefix(folder, `\`) {
		return folder
	}
	if strings.HasPrefix(folder, `\\`) || strings.HasPrefix(folder, "//") { // a share
		return folder
	}
	return drive + folder
}

// Pool is the address store of one network.
type Pool struct {
	dir  string
	sets [][]span
	// RouteGateway is the gateway of the first of the configuration's routes, if that one leads everywhere; zero if it
	// names none. It is never given out. wincni takes it for the pods' gateway, other plugins do not look at it.
	RouteGateway netip.Addr
}

type span struct {
	prefix      netip.Prefix
	first, last netip.Addr
	gateway     netip.Addr // zero: not given
}

func (s span) holds(a netip.Addr) bool {
	return a.BitLen() == s.first.BitLen() && !a.Less(s.first) && !s.last.Less(a)
}

// Address is an address that was given out. Gateway is zero if the configuration names none.
type Address struct {
	Prefix  netip.Prefix
	Gateway netip.Addr
}

// Open reads the ipam part of the configuration of a network. It touches no file.
func Open(raw json.RawMessage, network string) (*Pool, error) {
	var c Config
	if len(raw) == 0 {
		return nil, errors.New("the network configuration has no ipam")
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("reading ipam: %w", err)
	}

	if t := strings.TrimSuffix(strings.ToLower(c.Type), ".exe"); t != "" && t != "host-local" {
		return nil, fmt.Errorf("ipam type %q: this plugin keeps addresses itself, as host-local", c.Type)
	}
	if c.Subnet != "" {
		c.Ranges = append([][]Range{{c.Range}}, c.Ranges...)
	}
	if len(c.Ranges) == 0 {
		return nil, errors.New("ipam has neither subnet nor ranges")
	}
	p := &Pool{dir: c.dir(network)}
	if len(c.Routes) > 0 && c.Routes[0].GW != "" &&
		(c.Routes[0].Dst == "" || strings.HasSuffix(c.Routes[0].Dst, "/0")) {
		var err error
		if p.RouteGateway, err = netip.ParseAddr(c.Routes[0].GW); err != nil {
			return nil, fmt.Errorf("ipam routes[0].GW: %w", err)
		}
	}
	for _, set := range c.Ranges {
		var spans []span
		for _, r := range set {
			s, err := r.parse()
			if err != nil {
				return nil, err
			}
			if err := p.fits(s, spans); err != nil {
				return nil, err
			}
			spans = append(spans, s)
		}
		if len(spans) == 0 {
			return nil, errors.New("ipam has an empty set of ranges")
		}
		p.sets = append(p.sets, spans)
	}
	return p, nil
}

// fits returns an error if s shares addresses with another range, because it would be unclear to which of them an
// address belongs, or if it is of another family than the rest of its set, which host-local refuses too.
func (p *Pool) fits(s span, set []span) error {
	for _, other := range append(slices.Concat(p.sets...), set...) {
		if s.holds(other.first) || other.holds(s.first) {
			return fmt.Errorf("ipam ranges overlap: %s to %s and %s to %s", other.first, other.last, s.first, s.last)
		}
	}
	if len(set) > 0 && set[0].first.BitLen() != s.first.BitLen() {
		return fmt.Errorf("ipam has address families mixed in one set: %s and %s", set[0].prefix, s.prefix)
	}
	return nil
}

// parse checks the range and fills in what it leaves out: all addresses of the subnet but for the first (the network's
// own) and, in IPv4, the last (broadcast).
func (r Range) parse() (span, error) {
	prefix, err := netip.ParsePrefix(r.Subnet)
	if err != nil {
		return span{}, fmt.Errorf("ipam subnet: %w", err)
	}
	prefix = prefix.Masked()
	s := span{prefix: prefix, first: prefix.Addr().Next(), last: lastOf(prefix)}
	if prefix.Addr().Is4() {
		s.last = s.last.Prev() // the broadcast address
	}

	for _, part := range []struct {
		name, text string
		to         *netip.Addr
	}{{"rangeStart", r.Start, &s.first}, {"rangeEnd", r.End, &s.last}, {"gateway", r.Gateway, &s.gateway}} {
		if part.text == "" {
			continue
		}
		addr, err := netip.ParseAddr(part.text)
		if err != nil {
			return span{}, fmt.Errorf("ipam %s: %w", part.name, err)
		}
		if !prefix.Contains(addr) {
			return span{}, fmt.Errorf("ipam %s %s is outside %s", part.name, addr, prefix)
		}
		*part.to = addr
	}

	if !s.first.IsValid() || !s.last.IsValid() || s.last.Less(s.first) {
		return span{}, fmt.Errorf("ipam range of %s is empty: %s to %s", prefix, s.first, s.last)
	}
	return s, nil
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// Claim returns the container's addresses, one per set of ranges. If it has some already, they are the same. Addresses
// in taken are never given out. If one set has no free address, nothing is claimed.
func (p *Pool) Claim(container, ifname string, taken ...netip.Addr) ([]Address, error) {
	unlock, err := p.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	held, err := p.mended()
	if err != nil {
		return nil, err
	}

	var out []Address
	var fresh []netip.Addr
	for i, set := range p.sets {
		address, isNew, err := p.claimOne(i, set, owner(container, ifname), held, taken)
		if err != nil {
			for _, a := range fresh {
				_ = os.Remove(p.file(a)) // we made it just now, under the lock
			}
			return nil, err
		}
		if isNew {
			fresh = append(fresh, address.Prefix.Addr())
		}
		out = append(out, address)
	}
	return out, nil
}

// claimOne returns the owner's address in one set of ranges, and whether it is a new one. held has the owner of every
// address in use.
func (p *Pool) claimOne(set int, spans []span, owner string, held map[netip.Addr]string, taken []netip.Addr) (Address,
	bool, error) {
	for addr, who := range held {
		for _, s := range spans {
			if who == owner && s.holds(addr) {
				return Address{netip.PrefixFrom(addr, s.prefix.Bits()), s.gateway}, false, nil
			}
		}
	}

	for _, s := range spans {
		avoid := append([]netip.Addr{s.gateway, p.RouteGateway}, taken...)
		start := p.after(set, s)
		for addr, wrapped := start, false; ; {
			if _, used := held[addr]; !used && !slices.Contains(avoid, addr) {
				return Address{netip.PrefixFrom(addr, s.prefix.Bits()), s.gateway}, true, p.write(set, addr, owner)
			}
			if addr == s.last {
				if wrapped {
					break
				}
				addr, wrapped = s.first, true
			} else {
				addr = addr.Next()
			}
			if addr == start {
				break
			}
		}
	}
	return Address{}, false, fmt.Errorf("no address is free in %s (%d are in use; files in %s)", spans[0].prefix,
		len(held), p.dir)
}

// after returns where the search for a free address starts: behind the last one given out, so that a freed address is
// not used again at once.
func (p *Pool) after(set int, s span) netip.Addr {
	data, err := os.ReadFile(p.lastFile(set))
	if err != nil {
		return s.first
	}
	last, err := netip.ParseAddr(strings.TrimSpace(string(data)))
	if err != nil || last.Less(s.first) || !last.Less(s.last) {
		return s.first
	}
	return last.Next()
}

func (p *Pool) write(set int, addr netip.Addr, owner string) error {
	f, err := os.OpenFile(p.file(addr), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("claiming address %s: %w", addr, err)
	}
	_, err = f.WriteString(owner)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name()) // otherwise half a file would hold the address for ever
		return fmt.Errorf("claiming address %s: %w", addr, err)
	}
	return os.WriteFile(p.lastFile(set), []byte(addr.String()), 0o600)
}

// Release frees all addresses of the container's interface. It returns nil if there are none.
func (p *Pool) Release(container, ifname string) error {
	return p.releaseIf(func(who string) bool {
		return who == owner(container, ifname) || who == strings.TrimSpace(container)
	})
}

// Keep frees the addresses of all containers that are not in valid.
func (p *Pool) Keep(valid map[string]bool) error {
	return p.releaseIf(func(who string) bool {
		container, _, _ := strings.Cut(who, "\r\n")
		return !valid[strings.TrimSpace(container)]
	})
}

// releaseIf frees the addresses whose owner is gone. It holds the lock of the pool meanwhile, so that no other
// plugin's process claims an address that is just looked at. A pool without a folder has no addresses.
func (p *Pool) releaseIf(gone func(owner string) bool) error {
	if _, err := os.Stat(p.dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	unlock, err := p.lock()
	if err != nil {
		return err
	}
	defer unlock()

	held, err := p.mended()
	if err != nil {
		return err
	}
	var errs []error
	for addr, who := range held {
		if gone(who) {
			if err := os.Remove(p.file(addr)); err != nil && !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, fmt.Errorf("releasing address %s: %w", addr, err))
			}
		}
	}
	return errors.Join(errs...)
}

// Owners returns the containers and interfaces that have addresses, sorted. A store without a folder has none.
func (p *Pool) Owners() ([]types.GCAttachment, error) {
	held, err := p.held()
	if err != nil {
		return nil, err
	}
	var out []types.GCAttachment
	for _, who := range held {
		container, ifname, _ := strings.Cut(who, "\r\n")
		if a := (types.GCAttachment{ContainerID: container, IfName: ifname}); container != "" &&
			!slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b types.GCAttachment) int {
		return cmp.Or(strings.Compare(a.ContainerID, b.ContainerID), strings.Compare(a.IfName, b.IfName))
	})
	return out, nil
}

// Holds reports whether the container's interface has the address.
func (p *Pool) Holds(container, ifname string, addr netip.Addr) (bool, error) {
	held, err := p.held()
	return held[addr] == owner(container, ifname), err
}

// Of returns those of the given addresses that lie in the pool's ranges, in the order of its sets, with the prefix and
// gateway of their ranges.
func (p *Pool) Of(addrs []netip.Addr) []Address {
	var out []Address
	for _, set := range p.sets {
		for _, s := range set {
			for _, a := range addrs {
				if s.prefix.Contains(a) {
					out = append(out, Address{netip.PrefixFrom(a, s.prefix.Bits()), s.gateway})
				}
			}
		}
	}
	return out
}

// Ready returns an error if addresses cannot be given out.
func (p *Pool) Ready() error {
	unlock, err := p.lock()
	if err != nil {
		return err
	}
	unlock()
	return nil
}

// owner returns the content of an address file. host-local separates by CR LF on every system.
func owner(container, ifname string) string { return strings.TrimSpace(container) + "\r\n" + ifname }

// mended is held without the addresses whose claim was cut short: a process that ended between making the file and
// writing it leaves an empty one, which nobody would ever release. It removes those files. The caller holds the lock,
// so that no claim is under way.
func (p *Pool) mended() (map[netip.Addr]string, error) {
	held, err := p.held()
	if err != nil {
		return nil, err
	}
	for addr, who := range held {
		if who != "" {
			continue
		}
		if err := os.Remove(p.file(addr)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("freeing address %s, whose claim was cut short: %w", addr, err)
		}
		delete(held, addr)
	}
	return held, nil
}

// held returns the addresses in use with their owners.
func (p *Pool) held() (map[netip.Addr]string, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading addresses in use: %w", err)
	}

	out := map[netip.Addr]string{}
	for _, e := range entries {
		addr, err := netip.ParseAddr(strings.ReplaceAll(e.Name(), "_", ":"))
		if err != nil {
			continue // the lock and the last_reserved_ip files
		}
		data, err := os.ReadFile(filepath.Join(p.dir, e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading who has %s: %w", addr, err)
		}
		out[addr] = strings.TrimSpace(string(data))
	}
	return out, nil
}

func (p *Pool) file(addr netip.Addr) string {
	return filepath.Join(p.dir, fileName(addr.String()))
}

func (p *Pool) lastFile(set int) string {
	return filepath.Join(p.dir, fmt.Sprintf("last_reserved_ip.%d", set))
}

func (p *Pool) lock() (func(), error) {
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the address store: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(p.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the address store: %w", err)
	}
	if err := lockFile(f); err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("locking the address store %s: %w", p.dir, err)
	}
	return func() { _ = f.Close() }, nil // closing releases the lock
}
