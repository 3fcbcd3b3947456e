package cluster

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// hasBridgeFilter reports whether the rules of services see what crosses a bridge (br_netfilter). Without it a pod that
// asks a service and is answered by a pod of its own node gets the answer from an address that it did not ask.
//
// It is a module on most distributions. The kernel loads it for who uses the match physdev: the modprobe of a root folder
// would not find the machine's modules. The rule is in a network namespace that goes away with the program.
func hasBridgeFilter(ctx context.Context) bool {
	const settings = "/proc/sys/net/bridge"
	if _, err := os.Stat(settings); err == nil {
		return true
	}
	load := exec.CommandContext(ctx, "iptables", "-A", "FORWARD", "-m", "physdev", "--physdev-is-bridged", "-j", "ACCEPT")
	load.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	_ = load.Run() // the settings tell how it ended
	_, err := os.Stat(settings)
	return err == nil
}
