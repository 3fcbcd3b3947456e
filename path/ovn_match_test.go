package path

import "testing"

// TestMatches evaluates matches in OVN's language. The packet is of TCP, from 10.244.1.5 at port default_on-win to
// 10.244.0.5, port 8080.
func TestMatches(t *testing.T) {
	p := logicalPacket{in: "default_on-win", out: "default_on-lin", src: addr("10.244.1.5"), dst: addr("10.244.0.5"),
		protocol: "tcp", port: 8080}
	any := p
	any.port = 0
	sets := map[string][]string{"@web": {"default_on-lin", "default_other"}, "$friends": {"10.1.0.0/16", "10.244.1.5"},
		"$none": nil}
	for text, want := range map[string]truth{
		`1`:                                   yes,
		`0`:                                   no,
		`ip4`:                                 yes,
		`ip6`:                                 no,
		`!ip6`:                                yes,
		`tcp`:                                 yes,
		`udp || icmp4`:                        no,
		`ip4.src == 10.244.1.0/24`:            yes,
		`ip4.src==10.244.1.0/24&&tcp`:         yes,
		`ip4.src != 10.244.1.0/24`:            no,
		`ip4.dst == {10.1.0.1, 10.244.0.5}`:   yes,
		`ip4.dst == {10.1.0.1 10.244.0.6}`:    no,
		`ip6.src == fd00::/8`:                 no,
		`ip4.src == $friends`:                 yes,
		`ip4.dst == $friends`:                 no,
		`ip4.dst == {$friends, 10.244.0.5}`:   yes,
		`ip4.dst == $none`:                    no,
		`outport == @web && ip4`:              yes,
		`inport == @web`:                      no,
		`inport == "default_on-win"`:          yes,
		`inport != "default_on-win"`:          no,
		`outport == "ip4"`:                    no,
		`tcp.dst == 8080`:                     yes,
		`tcp.dst == 0x1f90`:                   yes,
		`tcp.dst >= 8000 && tcp.dst < 8081`:   yes,
		`tcp.dst == {80, 443}`:                no,
		`udp.dst == 8080`:                     no,
		`!(tcp.dst == 80 || tcp.dst == 8080)`: no,
		`ct.est`:                              no,
		`ct.new && ip4`:                       yes,

		// What is not known is neither.
		`tcp.src == 1024`:                   perhaps,
		`!(tcp.src == 1024)`:                perhaps,
		`udp && tcp.src == 1024`:            no,
		`tcp || tcp.src == 1024`:            yes,
		`ip.ttl == 1`:                       perhaps,
		`eth.src == 0a:58:0a:f4::1`:         perhaps,
		`ip4.src != {10.1.0.1, 10.244.1.5}`: perhaps,
		`1 < tcp.dst < 9000`:                perhaps,
		`ip4.src == $unknown`:               perhaps,
		`ip4.src == `:                       perhaps,
		`(ip4`:                              perhaps,
		`ip4 ip4`:                           perhaps,
		`outport == "x`:                     perhaps,
		`ip4 & tcp`:                         perhaps,
		``:                                  perhaps,
	} {
		if got := p.matches(text, sets); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}

	for text, want := range map[string]truth{`tcp`: perhaps, `icmp`: perhaps, `tcp.dst == 8080`: perhaps,
		`ip4.dst == 10.244.0.5`: yes, `ip4.dst == 10.244.0.6 && udp`: no} {
		if got := any.matches(text, sets); got != want {
			t.Errorf("of a packet of any protocol, %s: %d, want %d", text, got, want)
		}
	}
}
