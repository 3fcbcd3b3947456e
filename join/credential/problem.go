// Package credential finds a cluster that a user names by a token or a file, makes sure that it is the right one, and
// gets the certificate by which the cluster knows a node. It keeps nothing on the disk.
//
//	token, hash ─▶ Discover ─▶ Cluster (address, certificate authority) ─▶ API ─▶ Request ─▶ certificate of the node
//	                                                                        └────▶ ReadSettings: what kubeadm wrote for nodes
package credential

// Problem is an error that a user can mend: what is wrong, and what to do.
type Problem struct {
	// Check names the check of `porthole join` that fails: ApiServer, Clock or Discovery.
	Check string
	Text  string
	Cure  string // "" if Text says it
}

// Error returns both in one line.
func (p *Problem) Error() string {
	if p.Cure == "" {
		return p.Text
	}
	return p.Text + " → " + p.Cure
}
