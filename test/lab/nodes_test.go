package lab

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// status is what other programs read from `porthole status -o json`; the names are a contract.
type status struct {
	Registry   string
	Supervisor process
	Standby    process
	Processes  []process
	Nodes      []struct {
		Name, OS, Build, PodCIDR, Netns, Reason string
		Ready                                   bool
		Addresses                               []string
		Processes                               []process
		Services, Routes                        struct {
			Wanted, Present, Failed, Pending int
			ByState                          map[string]int
			WithProblems                     []unserved
			Error                            string
			Problems                         []string
		}
	}
}

// unserved is a service that a node does not serve as wanted.
type unserved struct {
	Service, State, Reason, Message, Code string
	Since                                 time.Time
	Failures                              int
}

type process struct {
	Name, Phase   string
	PID, Restarts int
}

func readStatus(t *testing.T) status {
	t.Helper()
	out, err := command(time.Minute, porthole, "status", "--dir", dir, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var s status
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Rows 1.01, 1.02, 1.100.
func TestNodes(t *testing.T) {
	var nodes v1.NodeList
	object(t, &nodes, "nodes")
	want := map[string]string{"lin01": "linux", "win01": "windows", "win02": "windows"}
	if len(nodes.Items) != len(want) {
		t.Fatalf("%d nodes, want %d", len(nodes.Items), len(want))
	}

	pods := netip.MustParsePrefix("10.244.0.0/16")
	for _, n := range nodes.Items {
		t.Run(n.Name, func(t *testing.T) {
			system := want[n.Name]
			for _, label := range []string{"kubernetes.io/os", "beta.kubernetes.io/os"} {
				if n.Labels[label] != system {
					t.Errorf("label %s is %q, want %q", label, n.Labels[label], system)
				}
			}

			if system == "windows" {
				if build := n.Labels["node.kubernetes.io/windows-build"]; build != "10.0.20348" {
					t.Errorf("windows-build is %q", build)
				}
				if image := n.Status.NodeInfo.OSImage; !strings.Contains(image, "Windows Server 2022") {
					t.Errorf("OS image is %q", image)
				}
				if !strings.HasPrefix(n.Status.NodeInfo.KernelVersion, "10.0.20348") {
					t.Errorf("kernel version is %q", n.Status.NodeInfo.KernelVersion)
				}
			}

			if !strings.HasPrefix(n.Status.NodeInfo.ContainerRuntimeVersion, "containerd://") {
				t.Errorf("runtime is %q", n.Status.NodeInfo.ContainerRuntimeVersion)
			}
			cidr, err := netip.ParsePrefix(n.Spec.PodCIDR)
			if err != nil || cidr.Bits() != 24 || !pods.Contains(cidr.Addr()) {
				t.Errorf("podCIDR is %q, want a /24 of %s", n.Spec.PodCIDR, pods)
			}

			for _, list := range []v1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
				if list.Cpu().IsZero() || list.Memory().IsZero() || list.Pods().IsZero() {
					t.Errorf("capacity or allocatable lacks cpu, memory or pods: %v", list)
				}
			}

			conditions := map[v1.NodeConditionType]v1.ConditionStatus{}
			for _, c := range n.Status.Conditions {
				conditions[c.Type] = c.Status
			}

			for kind, want := range map[v1.NodeConditionType]v1.ConditionStatus{
				v1.NodeReady: v1.ConditionTrue, v1.NodeMemoryPressure: v1.ConditionFalse,
				v1.NodeDiskPressure: v1.ConditionFalse,
				v1.NodePIDPressure:  v1.ConditionFalse, v1.NodeNetworkUnavailable: v1.ConditionFalse,
			} {
				if conditions[kind] != want {
					t.Errorf("condition %s is %q, want %s", kind, conditions[kind], want)
				}
			}

			var lease coordinationv1.Lease
			object(t, &lease, "-n", "kube-node-lease", "lease", n.Name)
			if lease.Spec.RenewTime == nil || time.Since(lease.Spec.RenewTime.Time) > 40*time.Second {
				t.Errorf("lease was renewed at %v", lease.Spec.RenewTime)
			}
		})
	}
}

// TestProgramsWorkInC: a program of an emulated host that is given no folder works in C:, where paths without a drive
// lead then, and not in the root of Linux, which is Z:.
func TestProgramsWorkInC(t *testing.T) {
	for _, name := range []string{"win01/kubelet", "win01/kube-proxy", "win01/routes"} {
		folder, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", current(t, name).PID))
		if err != nil || !strings.HasSuffix(folder, "/hosts/win01/prefix/drive_c") {
			t.Errorf("%s works in %s, %v", name, folder, err)
		}
	}
}

// TestStatusTellsTheTruth: `porthole status` has every node with its addresses, routes, services and processes.
func TestStatusTellsTheTruth(t *testing.T) {
	wait.NoError(t, 20*time.Second, "a complete status", func() error {
		s := readStatus(t)
		if s.Registry == "" || s.Supervisor.PID == 0 || s.Standby.PID == 0 {
			return fmt.Errorf("registry %q, supervisor %d, standby %d", s.Registry, s.Supervisor.PID, s.Standby.PID)
		}

		if len(s.Nodes) != 3 {
			return fmt.Errorf("%d nodes, want 3", len(s.Nodes))
		}
		for _, n := range s.Nodes {
			if !n.Ready || len(n.Addresses) == 0 || n.PodCIDR == "" {
				return fmt.Errorf("node %s: ready %v (%s), addresses %v, podCIDR %q", n.Name, n.Ready, n.Reason,
					n.Addresses, n.PodCIDR)
			}
			if n.Routes.Wanted != 2 || n.Routes.Present != 2 || len(n.Routes.Problems) > 0 {
				return fmt.Errorf("node %s: routes %+v, want 2", n.Name, n.Routes)
			}
			if n.OS == "windows" && (n.Services.Wanted < 2 || n.Services.Present != n.Services.Wanted ||
				n.Services.Failed > 0) {
				return fmt.Errorf("node %s: services %+v", n.Name, n.Services)
			}
			for _, p := range n.Processes {
				if p.Phase != "running" || p.PID == 0 {
					return fmt.Errorf("process %s is %s", p.Name, p.Phase)
				}
			}
		}

		return nil
	})
}
