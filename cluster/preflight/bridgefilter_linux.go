package preflight

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// hasBridgeFilter reports whether netfilter sees the packets between the ports of a bridge (module
// br_netfilter). Without it kube-proxy cannot translate the answer of a pod on the same node back to the
// address of the service, and the client drops it.
//
// The module is often not loaded. A program in a root folder has no modprobe that finds the machine's modules,
// so a rule with the match physdev makes the kernel load it. The rule is made in a network namespace of
// iptables' own.
func hasBridgeFilter(ctx context.Context) bool {
	const settings = "/proc/sys/net/bridge"
	if _, err := os.Stat(settings); err == nil {
		return true
	}
	load := exec.CommandContext(ctx,
		"iptables", "-A", "FORWARD", "-m", "physdev", "--physdev-is-bridged", "-j", "ACCEPT")
	load.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	_ = load.Run() // the settings tell how it ended
	_, err := os.Stat(settings)
	return err == nil
}
