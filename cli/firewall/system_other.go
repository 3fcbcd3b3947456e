//go:build !windows

package firewall

import "errors"

func system() (host, error) {
	return nil,
		errors.New(
			`only Windows has this firewall: run "porthole.exe firewall" on the node (for an emulated one: porthole host run NAME -- 'C:\k\porthole.exe' firewall …)`)
}
