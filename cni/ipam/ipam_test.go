package ipam

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestOpenRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                    "no ipam",
		`{}`:                  "neither subnet nor ranges",
		`{"type":"dhcp"}`:     "dhcp",
		`{"ranges":[[]]}`:     "empty",
		`{"ranges":[null]}`:   "empty",
		`{"subnet":"10.0.0"}`: "subnet",
		`{"subnet":"10.0.0.0/24","rangeStart":"10.0.1.1"}`:                       "outside",
		`{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.9","rangeEnd":"10.0.0.8"}`: "empty",
		`{"subnet":"255.255.255.255/32"}`:                                        "empty",
		`{"subnet":"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"}`:               "empty",
		`{"ranges":[[{"subnet":"10.0.0.0/24"}],[{"subnet":"10.0.0.128/25"}]]}`:   "overlap",
		`{"ranges":[[{"subnet":"10.0.0.0/24"},{"subnet":"10.0.0.0/25"}]]}`:       "overlap",
		`{"subnet":"10.0.0.0/24","ranges":[[{"subnet":"10.0.0.0/24"}]]}`:         "overlap",
		`{"ranges":[[{"subnet":"10.0.0.0/24"},{"subnet":"fd00::/64"}]]}`:         "families",
	} {
		if p, err := Open(json.RawMessage(text), "net"); p != nil || err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}

// The last address of IPv6 has none after it.
func TestClaimAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	raw, err := json.Marshal(map[string]string{"subnet": "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127", "dataDir": dir})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Open(raw, "net")
	if err != nil {
		t.Fatal(err)
	}
	last := netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
	if got, err := p.Claim("a", "eth0"); err != nil || len(got) != 1 || got[0].Prefix.Addr() != last {
		t.Errorf("the first: %v %v", got, err)
	}
	if got, err := p.Claim("b", "eth0"); err == nil {
		t.Errorf("the second: %v", got)
	}
}

// FuzzOpen checks that any configuration gives an error or ranges inside their subnets, and that a claimed address
// lies in its range, belongs to one container, is the same when it is claimed again, and is free after its release.
func FuzzOpen(f *testing.F) {
	f.Add([]byte(`{"type":"host-local","subnet":"10.244.2.0/24","rangeStart":"10.244.2.3","gateway":"10.244.2.2"}`))
	f.Add(
		[]byte(
			`{"ranges":[[{"subnet":"10.0.0.0/30"},{"subnet":"10.0.1.0/31"}],[{"subnet":"fd00::/126","gateway":"fd00::1"}]]}`))
	f.Add([]byte(`{"ranges":[[],null,[{}]],"subnet":"::ffff:10.0.0.0/126","rangeEnd":"fe80::1%eth0"}`))
	f.Add([]byte(`{"subnet":"255.255.255.254/31"}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Open(data, "net")
		if (p == nil) != (err != nil) {
			t.Fatalf("pool %v and error %v", p, err)
		}
		if err != nil {
			return
		}

		for _, s := range slices.Concat(p.sets...) {
			if s.prefix != s.prefix.Masked() || !s.prefix.Contains(s.first) || !s.prefix.Contains(s.last) ||
				s.last.Less(s.first) ||
				s.gateway.IsValid() && !s.prefix.Contains(s.gateway) {
				t.Fatalf("range %+v", s)
			}
		}
		if len(p.sets) > 4 {
			return
		}
		p.dir = filepath.Join(dir, "net")
		claims(t, p)
	})
}

// claims lets two containers claim addresses and release them.
func claims(t *testing.T, p *Pool) {
	first, err := p.Claim("one", "eth0")
	if err != nil {
		if held, err := p.held(); err != nil || len(held) > 0 {
			t.Fatalf("after a claim that failed: %v %v", held, err)
		}
		return
	}

	again, err := p.Claim("one", "eth0")
	if err != nil || !slices.Equal(first, again) {
		t.Fatalf("%v, and then %v %v", first, again, err)
	}
	second, _ := p.Claim("two", "eth0") // there may be none
	seen := map[netip.Addr]bool{}
	for _, list := range [][]Address{first, second} {
		for i, a := range list {
			addr := a.Prefix.Addr()
			in := func(s span) bool { return s.holds(addr) && s.prefix == a.Prefix.Masked() && s.gateway != addr }
			if !slices.ContainsFunc(p.sets[i], in) || seen[addr] {
				t.Fatalf("%v of %+v", addr, p.sets[i])
			}
			seen[addr] = true
		}
	}
	if len(first) != len(p.sets) {
		t.Fatalf("%d addresses of %d sets", len(first), len(p.sets))
	}

	for _, who := range []string{"one", "two"} {
		if err := p.Release(who, "eth0"); err != nil {
			t.Fatal(err)
		}
	}
	if held, err := p.held(); err != nil || len(held) > 0 {
		t.Fatalf("after the release: %v %v", held, err)
	}
	if err := os.RemoveAll(p.dir); err != nil {
		t.Fatal(err)
	}
}

// A process that ends in the middle of a claim leaves an empty file. The address is free for the next one.
func TestClaimCutShort(t *testing.T) {
	dir := t.TempDir()
	raw, err := json.Marshal(map[string]string{"subnet": "10.0.0.0/30", "dataDir": dir})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Open(raw, "net")
	if err != nil {
		t.Fatal(err)
	}

	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{"10.0.0.1", "10.0.0.2"} {
		if err := os.WriteFile(filepath.Join(p.dir, addr), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, container := range []string{"a", "b"} {
		if got, err := p.Claim(container, "eth0"); err != nil || len(got) != 1 {
			t.Errorf("%s: %v %v", container, got, err)
		}
	}
	if got, err := p.Claim("c", "eth0"); err == nil {
		t.Errorf("a third one: %v", got)
	}
}

// A folder without a drive is on the system's, whichever drive a program was started on.
func TestFolderIsOnTheSystemsDrive(t *testing.T) {
	for folder, want := range map[string]string{
		DefaultDir: "C:/var/lib/cni/networks", `\k\cni`: `C:\k\cni`, `D:\cni`: `D:\cni`, "C:/cni": "C:/cni",
		`\\server\share`: `\\server\share`, "//server/share": "//server/share", "cni": "cni",
	} {
		if got := onDrive(folder, "C:"); got != want {
			t.Errorf("%s is %s, want %s", folder, got, want)
		}
		if got := onDrive(folder, ""); got != folder {
			t.Errorf("%s without drives is %s", folder, got)
		}
	}
}
