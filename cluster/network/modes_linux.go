package network

import (
	"errors"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/node/routes"
)

// modes has an entry for each mode that needs something in addition.
var modes = map[string]Mode{
	"tor":      tor,
	"bgp":      bgp,
	"vxlan":    {Plugins: []string{"win-overlay"}, Firewall: []string{"--vxlan"}},
	routes.OVN: ovn,
}

// Of returns what the mode of this cluster needs.
func Of(c config.Cluster) Mode { return modes[c.Network] }

// RemoveFiles deletes the files outside the state folder of all modes: the configuration, which says which of them it
// was, may be lost.
func RemoveFiles(c config.Cluster) error {
	var errs []error
	for _, m := range modes {
		if m.Remove != nil {
			errs = append(errs, m.Remove(c))
		}
	}
	return errors.Join(errs...)
}
