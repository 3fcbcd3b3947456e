package bgp

// passwordsImpossible returns why sessions cannot be protected by a password: Windows has no socket option for TCP MD5 (RFC 2385).
func passwordsImpossible() string {
	return "Windows has no TCP MD5: remove the password on both sides, and let a firewall rule accept port 179 from the peer only"
}
