//go:build !windows

package firewall

import "errors"

func system() (host, error) {
	return nil, errors.New("this is for Windows nodes: run porthole.exe firewall there; on an emulated host, porthole host exec NAME")
}
