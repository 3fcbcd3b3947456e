package serve

import (
	"strings"
	"testing"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
)

// TestReboot: objects are listed afterwards, pods' namespaces and attachments are gone, and load balancers carry no
// packets until they are made again. What a request keeps or loses besides comes on top.
func TestReboot(t *testing.T) {
	for _, c := range []struct {
		request                                                    string
		balancers, carried, local, remote, guests, attached, rules int
	}{
		{`{}`, 3, 0, 1, 2, 0, 0, 3},
		{`{"keep":["Rule"]}`, 3, 3, 1, 2, 0, 0, 0},
		{`{"keep":["rule","namespace","attachment"]}`, 3, 3, 1, 2, 1, 1, 0},
		{`{"lose":["LoadBalancer"]}`, 0, 0, 1, 2, 0, 0, 0},
		{`{"lose":["RemoteEndpoint"],"keep":["Namespace"]}`, 3, 0, 1, 0, 1, 0, 3},
	} {
		t.Run(c.request, func(t *testing.T) {
			s := startServer(t, 20348)
			p := s.connect("kube-proxy.exe", 100)
			network := population(t, s, p, 3)
			guest := p.good(wire.On(hnsd.Namespace, wire.Create), 0, "",
				`{"Type":"Guest","SchemaVersion":{"Major":2,"Minor":0}}`)
			pod := s.s.objects.State().List(hnsd.Endpoint)[0]
			p.good(wire.On(hnsd.Namespace, wire.Modify), guest.handle, "",
				`{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":"`+pod.ID+`"}}`)

			var status RebootStatus
			s.control("POST", "/reboot", c.request, &status)
			counts := map[string]int{}
			for o := range s.s.objects.State().Everything() {
				for _, kind := range []string{"LoadBalancer", "LocalEndpoint", "RemoteEndpoint"} {
					if o.Is(kind) {
						counts[kind]++
					}
				}
				if o.Kind == hnsd.Namespace && !o.HostDefault() {
					counts["guest"]++
				}
				if o.Kind == hnsd.Endpoint &&
					!strings.Contains(o.Doc.String(), `"HostComputeNamespace":"`+hnsd.ZeroID) {
					counts["attached"]++
				}
			}
			if counts["LoadBalancer"] != c.balancers || counts["LocalEndpoint"] != c.local ||
				counts["RemoteEndpoint"] != c.remote ||
				counts["guest"] != c.guests || counts["attached"] != c.attached || s.plane.balancers() != c.carried ||
				status.Lost["Rule"] != c.rules {
				t.Errorf("%v listed, %d carried, %v; want %+v", counts, s.plane.balancers(), status.Lost, c)
			}
			if a := p.call(wire.On(hnsd.Network, wire.Query), network, ""); a.result != 0x80070006 {
				t.Errorf("a handle from before: %#x", a.result)
			}
		})
	}
}

// TestRebootOutlivesDaemon: a daemon that starts again does not carry what its predecessor lost. Only a load balancer
// that is made again is carried.
func TestRebootOutlivesDaemon(t *testing.T) {
	s := startServer(t, 20348)
	population(t, s, s.connect("kube-proxy.exe", 100), 3)
	s.control("POST", "/reboot", `{}`, nil)

	plane := &fakePlane{}
	again, err := newService(optionsIn(s.dir, s.s.host, plane))
	must(t, err)
	must(t, again.restore(t.Context()))
	if n := plane.balancers(); n != 0 {
		t.Errorf("%d load balancers are carried", n)
	}

	lb := again.objects.State().List(hnsd.LoadBalancer)[0]
	must(t, again.objects.Change(t.Context(), func(state *hnsd.State) (*hnsd.State, error) {
		return again.host.Delete(state, hnsd.LoadBalancer, lb.ID)
	}))
	must(t, again.objects.Change(t.Context(), func(state *hnsd.State) (*hnsd.State, error) {
		next, _, err := again.host.Create(state, hnsd.LoadBalancer, "", lb.ID, hnsd.ParseDoc(lb.Doc.String()))
		return next, err
	}))
	if n := plane.balancers(); n != 1 {
		t.Errorf("%d load balancers are carried after one was made again", n)
	}
}

func TestRebootRefuses(t *testing.T) {
	s := startServer(t, 20348)
	for request, want := range map[string]string{
		`{"keep":["Cables"]}`:                  "there are Network",
		`{"keep":["Rule"],"lose":["rule"]}`:    "both kept and lost",
		`{"state":"running"}`:                  "the body is",
		`{"lose":["Namespace","Attachments"]}`: "neither keeps nor loses",
	} {
		if code, answer := s.tryControl("POST", "/reboot", request); code != 400 || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s", request, code, answer)
		}
	}
}

// TestRebootTransient: an overlay network as flannel makes it is gone after a reboot, with its endpoints; one without
// the flag stays.
func TestRebootTransient(t *testing.T) {
	s := startServer(t, 20348)
	c := s.connect("routes.exe", 1)
	network := c.good(wire.On(hnsd.Network, wire.Create), 0, "", overlayNetwork).handle
	c.good(wire.On(hnsd.Endpoint, wire.Create), network, "",
		`{"IpConfigurations":[{"IpAddress":"10.245.4.2"}],"SchemaVersion":{"Major":2,"Minor":0}}`)
	stays := strings.NewReplacer("flannel.4096", "stays", `"Flags":8,`, "", "10.245.4.", "192.168.255.", "4096",
		"9999").Replace(overlayNetwork)
	c.good(wire.On(hnsd.Network, wire.Create), 0, "", stays)

	var status RebootStatus
	s.control("POST", "/reboot", `{}`, &status)
	left := s.s.objects.State().List(hnsd.Network)
	if len(left) != 1 || !strings.Contains(left[0].Doc.String(), `"stays"`) ||
		len(s.s.objects.State().List(hnsd.Endpoint)) > 0 || status.Lost["Network"] != 1 {
		t.Errorf("after a reboot there are %d networks and %v is lost", len(left), status.Lost)
	}
}
