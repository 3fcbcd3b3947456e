// Package netspace makes network namespaces for tests, with the interfaces, addresses and routes between them. A test
// that uses it is skipped without root. Everything a namespace holds goes with it when the test ends.
//
//	out, host := netspace.New(t, "out"), netspace.New(t, "host")
//	host.Connect("eth0", out, "host")
//	out.Address("host", "10.99.7.1/24")
//	host.Address("eth0", "10.99.7.21/24")
//	host.Route("0.0.0.0/0", "10.99.7.1")
package netspace
