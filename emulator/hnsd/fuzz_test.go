package hnsd

import (
	"encoding/json"
	"maps"
	"net"
	"strings"
	"testing"

	"porthole.dev/porthole/emulator/desired"
)

// furnished is a world with an object of each kind.
func furnished(t testing.TB, build int) (w *world, network string) {
	t.Helper()
	w = newWorld(build)
	const version = `"SchemaVersion":{"Major":2,"Minor":0}}`
	create := func(k Kind, parent, doc string) string {
		next, id, err := w.h.Create(w.s, k, parent, "", ParseDoc(doc+version))
		if err != nil {
			t.Fatal(err)
		}
		w.s = next.Settled()
		return id
	}
	network = create(Network, "",
		`{"Name":"n","Type":"L2Bridge","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.1.0.0/24","Routes":[{"NextHop":"10.1.0.1","DestinationPrefix":"0.0.0.0/0"}]}]}],`)
	endpoint := create(Endpoint, network,
		`{"IpConfigurations":[{"IpAddress":"10.1.0.9"}],"Policies":[{"Type":"PortMapping","Settings":{"Protocol":6,"ExternalPort":8080,"InternalPort":80}}],`)
	create(Namespace, "", `{"Type":"Guest",`)
	create(LoadBalancer, "", `{"HostComputeEndpoints":["`+endpoint+
		`"],"FrontendVIPs":["10.96.0.1"],"PortMappings":[{"Protocol":6,"ExternalPort":80}],`)
	create(Route, "", `{"HostComputeEndpoints":["`+endpoint+`"],"Routes":[{"DestinationPrefix":"10.96.0.0/16"}],`)
	return w, network
}

// FuzzCalls: whatever documents a program hands to HNS, in the older form or the newer, each call fails or leads to a
// state that can be listed, shown in both forms, carried by the data plane and read back from the journal; the state
// before it stays what it was.
func FuzzCalls(f *testing.F) {
	for _, s := range [][3]string{
		{
			`{"ResourceType":"Policy","RequestType":"Add","Settings":{"Policies":[{"Type":"ACL","Settings":{"LocalPorts":"80,1-2"}}]}}`, "GET", "/networks/"},
		{`{"ResourceType":1,"RequestType":"Update","Settings":"{\"Policies\":[null,7]}","SchemaVersion":{"Major":1}}`,
			"POST", "/endpoints/00000000-0000-4000-8000-000000000003/attach"},
		{
			`{"IpConfigurations":[{"IpAddress":"10.1.0.77","PrefixLength":200}],"MacAddress":"00:15:5d:00:00:01","SchemaVersion":{}}`, "POST", "/endpoints"},
		{
			`{"Type":"Overlay","Subnets":[{"AddressPrefix":"255.255.255.254/31","Policies":[{"Type":"VSID","VSID":4096}]}],"MacPools":[{"StartMacAddress":"x"}]}`, "POST", "/networks"},
		{
			`{"Type":5,"Ipams":[{"Subnets":[{"IpAddressPrefix":"10.9.0.0/16"}]}],"Policies":[{"Type":"DrMacAddress","Settings":{"Address":"x; y"}},{"Type":"ProviderAddress"}],"SchemaVersion":{}}`, "DELETE", "/networks/00000000-0000-4000-8000-000000000002"},
		{
			`{"References":["/endpoints/00000000-0000-4000-8000-000000000003"],"Policies":[{"Type":"ELB","VIPs":["10.96.0.7"],"ExternalPort":80,"Protocol":6}]}`, "POST", "/policylists"},
		{`{"id":"{00000000-0000-4000-8000-0000000000FF}","ID":"","Filter":"{\"Name\":7}"}`, "POST",
			"/namespaces/00000000-0000-4000-8000-000000000004/addresource"},
		{`{"MacAddressList":[{"MacAddress":"00-15-5D-00-00-01"}]}`, "POST", "/accelnet"},
		{`null`, "", "//"},
		{`{"Name":"n"}],"`, "POST", "/networks"},
	} {
		f.Add(s[0], s[1], s[2])
	}

	f.Fuzz(func(t *testing.T, doc, method, path string) {
		w, network := furnished(t, 26100)
		before := texts(w.s)
		check := func(next *State, err error) {
			if err == nil && next != nil {
				checkState(t, w, next)
			}
		}
		for k := range Kinds {
			parent := ""
			if k == Endpoint {
				parent = network
			}
			next, _, err := w.h.Create(w.s, k, parent, "", ParseDoc(doc))
			check(next, err)
			next, err = w.h.Modify(w.s, k, w.s.List(k)[0].ID, ParseDoc(doc))
			check(next, err)
			if _, err := w.h.Enumerate(w.s, k, doc); err == nil && !json.Valid([]byte(doc)) &&
				strings.TrimSpace(doc) != "" {
				t.Fatalf("%q is a query", doc)
			}
			if _, err := w.h.Query(w.s, k, w.s.List(k)[0].ID, doc); err != nil {
				t.Fatal(err)
			}
			_ = w.s.Target(k, "", true, ParseDoc(doc))
		}
		next, answer, err := w.h.HNSCall(w.s, ParseV1(method, path, doc))
		if err == nil && !json.Valid([]byte(answer)) {
			t.Fatalf("%s %q answers %q", method, path, answer)
		}
		check(next, err)
		_ = w.s.TargetV1(ParseV1(method, path, doc))
		if !maps.Equal(before, texts(w.s)) {
			t.Fatal("the older state is another one now")
		}
	})
}

func checkState(t *testing.T, w *world, next *State) {
	t.Helper()
	checkIndex(t, next)
	for o := range next.Everything() {
		if canonicalID(o.ID) != o.ID || o.Doc.str("ID") != o.ID {
			t.Fatalf("%v %q has the id %q in its document", o.Kind, o.ID, o.Doc.str("ID"))
		}
		for _, version := range []string{"", `{"SchemaVersion":{"Major":1}}`} {
			if text, err := w.h.Query(next, o.Kind, o.ID, version); err != nil || text == "{}" {
				t.Fatalf("%v is shown as %s: %v", o.Doc, text, err)
			}
		}
	}

	checkDesired(t, Desired(next))
	if c := next.Diff(w.s); !c.Empty() {
		DesiredChange(next, c)
	}
	data, err := json.Marshal(next.Diff(nil))
	if err != nil {
		t.Fatal(err)
	}
	var c Change
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	read, err := (*State)(nil).Replay(c)
	if err != nil || !maps.Equal(texts(read), texts(next)) {
		t.Fatalf("read back from the journal: %v\n%v\n%v", err, texts(read), texts(next))
	}
}

// checkDesired: one part that the system refuses would keep the others from being carried out.
func checkDesired(t *testing.T, d desired.State) {
	t.Helper()
	mac := func(text string) {
		if _, err := net.ParseMAC(text); text != "" && err != nil {
			t.Fatal(err)
		}
	}

	for _, n := range d.Networks {
		mac(n.RouterMAC)
		for _, s := range n.RemoteSubnets {
			mac(s.MAC)
		}
		for _, s := range n.Subnets {
			if !s.Prefix.IsValid() {
				t.Fatalf("network %+v", n)
			}
		}
	}

	for _, e := range d.Endpoints {
		mac(e.MAC)
		for _, a := range e.Addrs {
			if !a.IsValid() {
				t.Fatalf("endpoint %+v", e)
			}
		}
		for _, a := range e.ACLs {
			for _, p := range append(a.LocalPorts, a.RemotePorts...) {
				if p.Last < p.First {
					t.Fatalf("endpoint %+v", e)
				}
			}
		}
	}
}
