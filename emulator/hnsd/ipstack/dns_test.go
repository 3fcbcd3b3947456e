package ipstack

import (
	"encoding/json"
	"net/netip"
	"testing"

	"porthole.dev/porthole/emulator/dataplane/hoststack"
	"porthole.dev/porthole/emulator/hnsd"
)

// TestDNSLines: servers come with the address of the first card, to the adapter that has it; the other adapters with
// IP show what Windows shows for those without one.
func TestDNSLines(t *testing.T) {
	with := hoststack.Link{Index: 2, Name: "eth0",
		Addrs: []netip.Prefix{netip.MustParsePrefix("10.99.7.21/24"), netip.MustParsePrefix("fe80::1/64")}}
	without := with
	without.Addrs = with.Addrs[1:]
	second := hoststack.Link{Index: 3, Name: "eth1", Addrs: []netip.Prefix{netip.MustParsePrefix("10.98.7.21/24")}}
	adapters := func(first *hoststack.Link) []adapter {
		return []adapter{{Adapter: hnsd.Adapter{Index: 3}, link: &second},
			{Adapter: hnsd.Adapter{Index: 1001}, link: first},
			{Adapter: hnsd.Adapter{Index: 2, Unbound: true}, link: first}}
	}
	noServer := func(index string) (text string) {
		for _, last := range "123" {
			text += "dns\t" + index + "\t" + "fec000000000ffff000000000000000" + string(last) + "\n"
		}
		return text
	}

	for name, c := range map[string]struct {
		given DNSServers
		link  *hoststack.Link
		want  string
	}{
		"those of the machine": {nil, &with, ""},
		"none yet":             {DNSServers{}, &with, "dns\t0\n" + noServer("3") + noServer("1001")},
		"no address": {DNSServers{netip.MustParseAddr("10.99.0.53")}, &without,
			"dns\t0\n" + noServer("3") + noServer("1001")},
		"with the address": {DNSServers{netip.MustParseAddr("10.99.0.53")}, &with,
			"dns\t0\n" + noServer("3") + "dns\t1001\t0a630035\n"},
		"two, in another order": {DNSServers{netip.MustParseAddr("2001:db8::53"), netip.MustParseAddr("10.99.0.53")},
			&with, "dns\t0\n" + noServer("3") + "dns\t1001\t20010db8000000000000000000000053\ndns\t1001\t0a630035\n"},
	} {
		var d dns
		d.set(c.given)
		if got := d.lines(adapters(c.link), "eth0"); got != c.want {
			t.Errorf("%s:\n%swant\n%s", name, got, c.want)
		}
	}
}

// TestDNSServersKept: no servers and those of the machine stay different on the command line and in files.
func TestDNSServersKept(t *testing.T) {
	for text, form := range map[string]string{"machine": `{}`, "none": `{"dns":[]}`,
		"10.99.0.53,2001:db8::53": `{"dns":["10.99.0.53","2001:db8::53"]}`} {
		list, err := ParseDNS(text)
		if err != nil || list.String() != text {
			t.Errorf("%s is read as %s: %v", text, list, err)
		}
		type kept struct {
			DNS DNSServers `json:"dns,omitzero"`
		}
		data, err := json.Marshal(kept{list})
		var back kept
		if err != nil || string(data) != form || json.Unmarshal(data, &back) != nil || back.DNS.String() != text {
			t.Errorf("%s is kept as %s and read back as %s: %v", text, data, back.DNS, err)
		}
	}

	for _, text := range []string{"", "10.99.0", "0.0.0.0", "ff02::fb", "fe80::1%eth0", "::ffff:10.99.0.53",
		"10.99.0.53,10.99.0.53", "10.99.0.53, 10.99.0.54"} {
		if _, err := ParseDNS(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
