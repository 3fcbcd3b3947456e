// Program agents is what start.ps1 is in sig-windows-tools' images of flannel and kube-proxy: it prepares the host,
// and runs the agent.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/Microsoft/hcsshim/hcn"
)

const (
	plugins = `C:\opt\cni\bin`
	// subnetFile is where flanneld writes the node's range (flannel, main.go, -subnet-file).
	subnetFile = `C:\run\flannel\subnet.env`
	addresses  = "C:/var/lib/cni/networks" // those that host-local has given away
	patience   = 2 * time.Minute
)

func main() {
	image := os.Getenv("CONTAINER_SANDBOX_MOUNT_POINT")
	start := map[string]func(string) error{"flannel": flannel, "kube-proxy": proxy}[os.Args[1]]
	if err := start(image); err != nil {
		fmt.Fprintln(os.Stderr, "agents:", err)
		os.Exit(1)
	}
}

// run runs a program of the image to its end.
func run(ended chan<- error, program string, args ...string) {
	fmt.Println("starting", program, args)
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	ended <- cmd.Run()
}

// flannel runs flanneld, and configures CNI when that has made the network.
func flannel(image string) error {
	kubeconfig, err := ownKubeconfig(image)
	if err != nil {
		return err
	}
	if err := install(filepath.Join(image, "cni")); err != nil {
		return err
	}
	if err := os.Remove(subnetFile); err != nil && !os.IsNotExist(err) { // of an earlier flanneld
		return err
	}

	ended := make(chan error, 1)
	go run(ended, filepath.Join(image, "flannel", "flanneld.exe"), "--kube-subnet-mgr", "--kubeconfig-file="+kubeconfig,
		"--iface="+os.Getenv("HOST_IP"),
		// without a drive, Wine takes them for paths of Linux
		`--net-config-path=C:\etc\kube-flannel\net-conf.json`, "--subnet-file="+subnetFile)
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		subnet, err := ownSubnet()
		if err == nil {
			if err := configure(subnet); err != nil {
				return err
			}
			return <-ended
		}
		select {
		case err := <-ended:
			return fmt.Errorf("flanneld ended: %w", err)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("flanneld made no network: %w", err)
		}
	}
}

// ownKubeconfig writes the kubeconfig for Windows, where a path that begins with a slash is none from the root.
func ownKubeconfig(image string) (string, error) {
	data, err := os.ReadFile(`C:\mounts\kube-proxy\kubeconfig.conf`)
	if err != nil {
		return "", err
	}
	path := filepath.Join(image, "kubeconfig.conf")
	return path, os.WriteFile(path, bytes.ReplaceAll(data, []byte(" /var/"), []byte(" C:/var/")), 0o600)
}

// install copies CNI plugins to the host. One that is there may be in use.
func install(from string) error {
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, f := range list {
		data, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err != nil {
			return err
		}
		to := filepath.Join(plugins, f.Name())
		if have, err := os.ReadFile(to); err == nil && bytes.Equal(have, data) {
			continue
		}
		if err := os.WriteFile(to, data, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func ownSubnet() (string, error) {
	data, err := os.ReadFile(subnetFile)
	if err != nil {
		return "", err
	}
	for _, line := range strings.Split(string(data), "\n") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "FLANNEL_SUBNET="); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("%s names no subnet: %s", subnetFile, data)
}

// configure writes the configuration of CNI, with the node's address and range.
func configure(subnet string) error {
	data, err := os.ReadFile(`C:\etc\kube-flannel-windows\cni-conf.json`)
	if err != nil {
		return err
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		return err
	}
	address, bits, _ := strings.Cut(subnet, "/") // the range's first address
	ipam := doc["ipam"].(map[string]any)
	ipam["subnet"], ipam["dataDir"] = address[:strings.LastIndex(address, ".")]+".0/"+bits, addresses
	for _, p := range doc["policies"].([]any) {
		value := p.(map[string]any)["Value"].(map[string]any)
		if value["Type"] == "ProviderAddress" {
			value["Settings"].(map[string]any)["ProviderAddress"] = os.Getenv("HOST_IP")
		}
	}
	if data, err = json.MarshalIndent(doc, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(`C:\etc\cni\net.d\10-flannel.conf`, data, 0o644)
}

// proxy runs kube-proxy with an address of the pods' range for packets to pods of other nodes (its flag --source-vip).
func proxy(image string) error {
	kubeconfig, err := ownKubeconfig(image)
	if err != nil {
		return err
	}
	network := os.Getenv("KUBE_NETWORK")
	subnet, err := networkSubnet(network)
	if err != nil {
		return err
	}
	source, err := sourceAddress(network, subnet)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	run(ended, filepath.Join(image, "kube-proxy", "kube-proxy.exe"), "--v=2",
		"--hostname-override="+os.Getenv("NODE_NAME"),
		"--proxy-mode=kernelspace", "--source-vip="+source, "--cluster-cidr=10.244.0.0/16", "--kubeconfig="+kubeconfig)
	return <-ended
}

// networkSubnet asks HNS for the range of a network, which flannel may not have made yet.
func networkSubnet(name string) (string, error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(500 * time.Millisecond) {
		n, err := hcn.GetNetworkByName(name)
		if err == nil && len(n.Ipams) > 0 && len(n.Ipams[0].Subnets) > 0 {
			return n.Ipams[0].Subnets[0].IpAddressPrefix, nil
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("network %s: %+v, %w", name, n, err)
		}
	}
}

// sourceAddress takes an address of the range by the plugin that gives pods theirs, once for all times.
func sourceAddress(network, subnet string) (string, error) {
	const file = `C:\sourcevip\sourceVip.json`
	answer, err := os.ReadFile(file)
	if err != nil {
		plugin := exec.Command(filepath.Join(plugins, "host-local.exe"))
		plugin.Env = append(os.Environ(), "CNI_COMMAND=ADD", "CNI_CONTAINERID=dummy", "CNI_NETNS=dummy",
			"CNI_IFNAME=dummy", "CNI_PATH="+plugins)
		plugin.Stdin = strings.NewReader(
			fmt.Sprintf(
				`{"cniVersion": "0.3.0", "name": %q, "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "dataDir": %q}}`, network, subnet, addresses))
		if answer, err = plugin.Output(); err != nil {
			return "", fmt.Errorf("host-local: %w: %s", err, answer)
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(file, answer, 0o644); err != nil {
			return "", err
		}
	}

	var result struct{ IPs []struct{ Address string } }
	if err := json.Unmarshal(answer, &result); err != nil || len(result.IPs) == 0 {
		return "", fmt.Errorf("host-local answers %s: %v", answer, err)
	}
	address, _, _ := strings.Cut(result.IPs[0].Address, "/")
	return address, nil
}
