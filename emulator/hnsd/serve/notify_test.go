package serve

import (
	"errors"
	"io"
	"testing"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
)

// TestNotifications: networks and namespaces are reported, other objects and losses are not, and the end of the
// service ends the stream.
func TestNotifications(t *testing.T) {
	s := startServer(t, 20348)
	watch := s.connect("kube-proxy.exe", 7)
	watch.good(wire.Notify, 0, "")
	c := s.connect("setup.exe", 8)
	id := c.idOf(hnsd.Network, population(t, s, c, 2))
	expect := func(kind uint32, data string) {
		t.Helper()
		if a, err := watch.receive(); err != nil || a.result != kind || a.text != data {
			t.Fatalf("got %d %s %v, want %d %s", a.result, a.text, err, kind, data)
		}
	}
	data := `{"ID":"` + id + `"}`
	expect(wire.NetworkPreCreate, data)
	expect(wire.NetworkCreate, data)
	s.control("POST", "/lose", `{"kind":"LoadBalancer"}`, nil)
	var bound struct{ ID string }
	s.control("POST", "/netns", `{"path":"/run/netns/x"}`, &bound)
	s.control("DELETE", "/netns/"+bound.ID, "", nil)
	expect(wire.NamespaceCreate, `{"ID":"`+bound.ID+`"}`)
	expect(wire.NamespaceDelete, `{"ID":"`+bound.ID+`"}`)
	s.control("POST", "/lose", `{"kind":"Endpoint"}`, nil)
	c.good(wire.On(hnsd.Network, wire.Delete), 0, id)
	expect(wire.NetworkPreDelete, data)
	expect(wire.NetworkDelete, data)

	s.control("POST", "/service", `{"state":"stopped"}`, nil)
	if a, err := watch.receive(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream goes on: %+v %v", a, err)
	}
	late := s.connect("kube-proxy.exe", 7)
	if a := late.call(wire.Notify, 0, ""); a.result != 0x80070426 {
		t.Errorf("registering while HNS is stopped: %#x", a.result)
	}
	s.control("POST", "/service", `{"state":"running"}`, nil)
	again := s.connect("kube-proxy.exe", 7)
	again.good(wire.Notify, 0, "")
	s.control("POST", "/service", `{"state":"running"}`, nil)
	if _, err := again.receive(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream goes on through a restart: %v", err)
	}
}
