package bgp

// passwordsImpossible returns why sessions cannot be protected by a password: Windows has no socket option for TCP MD5
// (RFC 2385).
func passwordsImpossible() string {
	return "Windows has no TCP MD5: remove the password on both sides, and let a firewall rule accept port 179 from the peer only"
}

// defaultRouteImpossible returns why a default route cannot be learnt: Windows does not keep who made a route, and a
// default route of ours would look like the host's own.
func defaultRouteImpossible() string {
	return "Windows does not keep who made a route, so that a learnt default route could not be told from the host's own: remove it from acceptPrefixes"
}
