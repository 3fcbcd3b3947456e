package join

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"porthole.dev/porthole/cli/kubelet"
	node "porthole.dev/porthole/node/join"
)

// check finds values that a program of the node would refuse later, when nobody watches: a service that ends at its
// start says so in its log only. Each error names the flag and what to write.
func check(o node.Request) error {
	return errors.Join(checkAddresses(o), checkRanges(o.PodCIDR, o.ServiceCIDR), checkSocket(o.CRISocket),
		checkLabels(o.Labels, o.NodeName),
		checkFolders(o), checkTimeout(o), checkKubeletArgs(o))
}

// checkAddresses checks --node-ip: an address, or one of each family.
func checkAddresses(o node.Request) error {
	if o.NodeIP == "" {
		return nil
	}
	var families []bool
	for _, text := range strings.Split(o.NodeIP, ",") {
		a, err := netip.ParseAddr(text)
		switch {
		case err != nil:
			return fmt.Errorf("--node-ip: %q is no IP address, such as 10.0.0.7", text)
		case a.IsLoopback() || a.IsMulticast() || a.IsUnspecified():
			return fmt.Errorf("--node-ip: %s cannot be the address of a node: give one that the other nodes reach", a)
		case slices.Contains(families, a.Is4()):
			return fmt.Errorf("--node-ip %s: give one address, or one of each family", o.NodeIP)
		}
		families = append(families, a.Is4())
	}
	return nil
}

// checkRanges checks the ranges of pods and services: each is one range, or one of each family, and they have no
// address in common.
func checkRanges(pods, services string) error {
	all := map[string][]netip.Prefix{}
	for flag, text := range map[string]string{"--pod-network-cidr": pods, "--service-cidr": services} {
		if text == "" {
			continue
		}
		for _, one := range strings.Split(text, ",") {
			p, err := netip.ParsePrefix(one)
			if err != nil {
				return fmt.Errorf("%s: %q is no range of addresses, such as 10.244.0.0/16", flag, one)
			}
			if p != p.Masked() {
				return fmt.Errorf("%s: %s has bits behind its length: write %s", flag, p, p.Masked())
			}
			// A flag may have one range of each family, for two stacks.
			if slices.ContainsFunc(all[flag], func(o netip.Prefix) bool { return o.Addr().Is4() == p.Addr().Is4() }) {
				return fmt.Errorf("%s %s: give one range, or one of each family", flag, text)
			}
			all[flag] = append(all[flag], p)
		}
	}

	// Overlaps is false for ranges of different families.
	for _, p := range all["--pod-network-cidr"] {
		for _, s := range all["--service-cidr"] {
			if p.Overlaps(s) {
				return fmt.Errorf(
					"--pod-network-cidr %s and --service-cidr %s overlap: they must have no address in common", p, s)
			}
		}
	}
	return nil
}

// checkSocket checks --cri-socket: a URL of a socket or of a pipe, or as kubeadm takes it too, a path.
func checkSocket(text string) error {
	for _, prefix := range []string{"unix:///", "npipe:////./pipe/", "tcp://", "/"} {
		if strings.HasPrefix(text, prefix) || text == "" {
			return nil
		}
	}
	return fmt.Errorf(
		"--cri-socket: %q is none, such as unix:///run/containerd/containerd.sock or npipe:////./pipe/containerd-containerd", text)
}

// checkFolders checks that the folders that the user names can be used, before anything else is
// asked.
func checkFolders(o node.Request) error {
	if !filepath.IsAbs(o.InstallDir) {
		return fmt.Errorf("--install-dir: %q is not the whole path of a folder, such as %s", o.InstallDir,
			node.DefaultInstallDir)
	}
	if o.PatchesDir == "" {
		return nil
	}
	st, err := os.Stat(o.PatchesDir)
	if err != nil {
		return fmt.Errorf("--patches: %w", err)
	}
	if !st.IsDir() {
		return fmt.Errorf("--patches: %s is no folder: give the folder of kubeletconfiguration*.yaml", o.PatchesDir)
	}
	return nil
}

// checkTimeout refuses a time that would be over at once.
func checkTimeout(o node.Request) error {
	if o.Timeout <= 0 {
		return fmt.Errorf("--timeout %v: give a time such as 5m", o.Timeout)
	}
	return nil
}

// madeByJoin are the kubelet's flags that join gives it itself, with the flag of join for them; "" for none.
var madeByJoin = map[string]string{"config": "--patches", "kubeconfig": "", "bootstrap-kubeconfig": "",
	"hostname-override": "--node-name", "node-ip": "--node-ip",
	"node-labels": "--node-labels", "register-with-taints": "--register-with-taints", "root-dir": "", "cert-dir": "",
	"network-boot-record": "", "windows-service": "",
	"container-runtime-endpoint": "--cri-socket"}

// checkKubeletArgs has the kubelet's own flags read what it will be given.
func checkKubeletArgs(o node.Request) error {
	for _, arg := range o.KubeletArgs {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "--") {
			return fmt.Errorf("--kubelet-extra-args: %q is not --NAME=VALUE", arg)
		}
		flag, ours := madeByJoin[name]
		switch {
		case ours && flag != "":
			return fmt.Errorf("--kubelet-extra-args: join sets --%s of the kubelet: use its own flag %s", name, flag)
		case ours:
			return fmt.Errorf("--kubelet-extra-args: join sets --%s of the kubelet: leave it out", name)
		}
	}
	if err := kubelet.CheckFlags(o.KubeletArgs); err != nil {
		return fmt.Errorf("--kubelet-extra-args: the kubelet would not take them: %w", err)
	}
	if o.Taints == "" {
		return nil
	}
	if err := kubelet.CheckFlags([]string{"--register-with-taints=" + o.Taints}); err != nil {
		return fmt.Errorf("--register-with-taints: %w", err)
	}
	return nil
}
