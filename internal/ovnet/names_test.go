package ovnet

import (
	"net/netip"
	"testing"
)

func TestAnnotation(t *testing.T) {
	subnet := netip.MustParsePrefix("10.244.1.0/24")
	at := Address{IP: netip.MustParseAddr("10.244.1.7"), MAC: "0a:58:0a:f4:01:07"}
	want := `{"ip_address":"10.244.1.7/24","mac_address":"0a:58:0a:f4:01:07","gateway_ip":"10.244.1.1"}`
	if got := AnnotationOf(at, subnet); got != want {
		t.Errorf("annotation %s, want %s", got, want)
	}

	for _, text := range []string{
		want,
		`{\"ip_address\":\"10.244.1.7/24\", \"mac_address\":\"0a:58:0a:f4:01:07\", \"gateway_ip\": \"10.244.1.1\"}`,
		`{"ip_address":"10.244.1.7/24","mac_address":"0A-58-0A-F4-01-07","gateway_ip":"10.244.1.1"}`,
	} {
		got, of, gateway, err := ParseAnnotation(text)
		if err != nil || got != at || of != subnet || gateway != netip.MustParseAddr("10.244.1.1") {
			t.Errorf("%s: %v %v %v %v", text, got, of, gateway, err)
		}
	}
	for _, text := range []string{"", "{}", "null",
		`{"ip_address":"10.244.1.7","mac_address":"0a:58:0a:f4:01:07","gateway_ip":"10.244.1.1"}`,
		`{"ip_address":"10.244.1.7/24","mac_address":"x","gateway_ip":"10.244.1.1"}`,
		`{"ip_address":"10.244.1.7/24","mac_address":"0a:58:0a:f4:01:01","gateway_ip":"10.244.1.1"}`, // the router's
		`{"ip_address":"10.244.1.7/24","mac_address":"ff:ff:ff:ff:ff:ff","gateway_ip":"10.244.1.1"}`,
		`{"ip_address":"10.244.1.7/24","mac_address":"0a:58:0a:f4:01:07","gateway_ip":"10.244.1.9"}`,
		`{"ip_address":"10.244.1.7/24","mac_address":"0a:58:0a:f4:01:07","gateway_ip":"fd00::1"}`,
		// the gateway of another range
		`{"ip_address":"10.244.1.7/16","mac_address":"0a:58:0a:f4:01:07","gateway_ip":"10.244.1.1"}`,
		`{"ip_address":"fd00::7/64","mac_address":"0a:58:0a:f4:01:07","gateway_ip":"fd00::1"}`,
		`{"ip_address":"::ffff:10.244.1.7/120","mac_address":"0a:58:0a:f4:01:07","gateway_ip":"::ffff:10.244.1.1"}`,
		`{"ip_address":"255.255.255.255/32","mac_address":"0a:58:ff:ff:ff:ff","gateway_ip":"255.255.255.255"}`,
	} {
		if _, _, _, err := ParseAnnotation(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
