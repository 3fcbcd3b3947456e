package killtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hcn"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
	"porthole.dev/porthole/routes/vxlan"
)

// peerMAC is what the nth node announces.
func peerMAC(n int) vxlan.MAC { return vxlan.MAC{2, 0, 0, 0, 0, byte(0x10 + n)} }

// overlayMode is the mode vxlan of this host. What it announces is in the folder.
func overlayMode(dir string) (keep.Mode[vxlan.Overlay, vxlan.PolicyOp], []table.Node, error) {
	u, err := findUplink()
	if err != nil {
		return nil, nil, err
	}
	nodes := u.nodes()
	for i := range nodes[1:] {
		n := &nodes[1+i]
		n.Annotations = vxlan.Announcement{VNI: 4096, MAC: peerMAC(i), Public: n.Addr}.Annotations()
	}
	m, err := vxlan.New(vxlan.Options{Node: "self", Addr: u.self, Config: vxlan.Default, Cluster: pods,
		HNS: overlayHNS(),
		Annotate: func(_ context.Context, told map[string]string) error {
			data, err := json.Marshal(told)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "announced.json"), data, 0o600)
		}})
	if err == nil {
		nodes[0].Annotations, err = announced(dir)
	}
	return m, nodes, err
}

func overlayHNS() hcn.Overlay { return hcn.Overlay{Client: hcn.New(hcn.Options{})} }

func announced(dir string) (told map[string]string, err error) {
	data, err := os.ReadFile(filepath.Join(dir, "announced.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &told)
	}
	return told, err
}

// makeOverlay makes the network as `porthole routes` does, and waits for what HNS adds.
func makeOverlay(t *testing.T, dir string) hns.Network {
	t.Helper()
	mode, nodes, err := overlayMode(dir)
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := mode.Network(podnet.Options{PodCIDR: podRange(1), Cluster: pods, Services: outside,
		Node: nodes[0].Addr})
	if err != nil {
		t.Fatal(err)
	}
	client := overlayHNS()
	made, err := client.CreateNetwork(t.Context(), wanted.HNS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.DeleteNetwork(context.Background(), made.ID); err != nil {
			t.Error(err)
		}
	})

	wait.NoError(t, 20*time.Second, "the addresses of the network", func() (err error) {
		if made, err = client.NetworkByName(t.Context(), podnet.NetworkName); err == nil &&
			(!made.Management.IsValid() || made.RouterMAC == "") {
			err = fmt.Errorf("it is %+v", made)
		}
		if err == nil {
			_, err = findUplink() // the switch has taken the card over
		}
		return err
	})
	return made
}

// TestVXLAN has policies that are wrong, missing, stale and of somebody else.
func TestVXLAN(t *testing.T) {
	EachChange(t, Agent[vxlan.Overlay, vxlan.PolicyOp]{
		Mode: overlayMode,
		Host: func(t *testing.T, dir string) Host {
			if !windows.GetCurrentProcessToken().IsElevated() {
				t.Skip("making HNS networks needs an administrator")
			}
			network, client := makeOverlay(t, dir), overlayHNS()
			u, err := findUplink()
			if err != nil {
				t.Fatal(err)
			}
			policy := func(dst netip.Prefix, at netip.Addr, mac vxlan.MAC) hns.RemoteSubnet {
				return hns.RemoteSubnet{Prefix: dst, Provider: at, VSID: 4096, MAC: hns.NormalMAC(mac.String())}
			}
			n := u.neighbours
			foreign := policy(outside, n[0], peerMAC(7))
			before := []hns.RemoteSubnet{foreign, policy(podRange(2), n[1], peerMAC(1)),
				policy(podRange(3), n[1], peerMAC(1)), policy(podRange(9), n[2], peerMAC(9))}

			return Host{
				Before: func() error {
					have, err := client.NetworkByName(t.Context(), podnet.NetworkName)
					for _, r := range have.RemoteSubnets {
						err = errors.Join(err, client.RemoveRemoteSubnet(t.Context(), network.ID, r))
					}
					for _, r := range before {
						err = errors.Join(err, client.AddRemoteSubnet(t.Context(), network.ID, r))
					}
					return errors.Join(err, os.WriteFile(filepath.Join(dir, "announced.json"), []byte("{}"), 0o600))
				},
				Tables: func() ([]string, error) { return overlayTables(t, dir) },
				Want: []string{
					policyText(policy(podRange(2), n[0], peerMAC(0))),
					policyText(policy(podRange(3), n[1], peerMAC(1))),
					policyText(policy(podRange(4), n[2], peerMAC(2))),
					fmt.Sprint(vxlan.Announcement{VNI: 4096, MAC: mustMAC(t, network.RouterMAC),
						Public: u.self}.Annotations()),
				},
				Foreign: []string{policyText(foreign)},
			}
		},
	})
}

func mustMAC(t *testing.T, text string) vxlan.MAC {
	t.Helper()
	m, err := vxlan.ParseMAC(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func policyText(r hns.RemoteSubnet) string {
	return fmt.Sprintf("%s at %s %s", r.Prefix, r.Provider, hns.NormalMAC(r.MAC))
}

// overlayTables returns the policies of the network, and what the node has announced.
func overlayTables(t *testing.T, dir string) (list []string, err error) {
	n, err := overlayHNS().NetworkByName(t.Context(), podnet.NetworkName)
	if err != nil {
		return nil, err
	}
	for _, r := range n.RemoteSubnets {
		list = append(list, policyText(r))
	}
	told, err := announced(dir)
	if len(told) > 0 {
		list = append(list, fmt.Sprint(told))
	}
	return list, err
}
