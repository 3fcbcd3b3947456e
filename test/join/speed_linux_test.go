package join

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/figure"
	"porthole.dev/porthole/internal/testkit/wait"
)

// Targets in seconds, on a machine of two processors with the images there.
const (
	joinTarget  = 8
	againTarget = 1
)

// bridgeConf is the pod network of a node that kubeadm joins: it is there before, so that the node is Ready as soon as
// its kubelet is.
const bridgeConf = `{"cniVersion": "1.0.0", "name": "speed", "plugins": [{"type": "bridge", "bridge": "speed0", "isGateway": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.200.0/24"}]]}}]}`

// TestJoinSpeed measures how long a machine takes from the line that kubeadm printed until its node is Ready:
// `porthole join`, which also makes the pod network, beside `kubeadm join` with upstream's kubelet, whose pod network
// is there already.
func TestJoinSpeed(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("PORTHOLE_JOIN_SPEED")) // none is 0
	if rounds == 0 {
		t.Skip("measures for minutes: PORTHOLE_JOIN_SPEED=3, or `make bench-join`")
	}
	cp := newControlPlane(t, "cp01", "10.99.0.21")
	var ours, again, peer []float64
	for i := range rounds {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			first, second := cp.at(t).joinSpeed(i)
			ours, again = append(ours, first), append(again, second)
			peer = append(peer, cp.at(t).
				kubeadmJoins(fmt.Sprintf("lin5%d", i), fmt.Sprintf("10.99.0.5%d", i), upstreams()))
		})
	}
	figure.Print(figure.Figure{Name: "linux-join-to-ready", Unit: "s", Ours: figure.Median(ours),
		Peer:   figure.Median(peer),
		PeerIs: "kubeadm join with upstream's kubelet, whose CNI plugins and configuration are there before",
		Target: joinTarget, Samples: map[string][]float64{"ours": ours, "peer": peer},
		Note: "images present; ours makes the pod network too"})
	figure.Print(figure.Figure{Name: "linux-join-again", Unit: "s", Ours: figure.Median(again), Target: againTarget,
		Samples: map[string][]float64{"ours": again}, Note: "0 writes: TestJoin/again"})
}

// fresh is a machine with the sandbox's image.
func (cp follower) fresh(name, address string) *machine {
	m := newMachine(cp.t, name, address)
	m.importImage(filepath.Join(bin, "bundle", "images", "linux", "pause"), []string{"pause"}, []string{pauseImage})
	return m
}

// joinSpeed joins a machine, and joins it again.
func (cp follower) joinSpeed(round int) (first, second float64) {
	m := cp.fresh(fmt.Sprintf("lin4%d", round), fmt.Sprintf("10.99.0.4%d", round))
	m.supervise()
	line := append(cp.joinLine(), "--patches", m.patches())
	r := m.porthole(line...)
	if r.code != 0 {
		cp.t.Fatalf("code %d: %s%s", r.code, r.out, r.err)
	}
	cp.t.Log(r.out)
	again := m.porthole("join")
	if again.code != 0 {
		cp.t.Fatalf("again: code %d: %s%s", again.code, again.out, again.err)
	}
	return r.took.Seconds(), again.took.Seconds()
}

// kubeadmJoins has kubeadm join a machine with a kubelet, "" for ours, and returns how many seconds it took until the
// node was Ready.
func (cp follower) kubeadmJoins(name, address, kubelet string) float64 {
	_, seconds := cp.kubeadmNode(name, address, kubelet)
	return seconds
}

// kubeadmNode has kubeadm join a machine with a kubelet, "" for ours, and returns it, and how many seconds it took
// until the node was Ready.
func (cp follower) kubeadmNode(name, address, kubelet string) (m *machine, seconds float64) {
	m = cp.fresh(name, address)
	m.cgroups()
	m.ok("mkdir", "-p", "/opt/cni/bin")
	for _, plugin := range []string{"bridge", "host-local", "loopback"} {
		m.ok("cp", filepath.Join(bin, "bundle", "cni", plugin), "/opt/cni/bin/")
	}
	m.ok("bash", "-c", "mkdir -p /etc/cni/net.d && cat > /etc/cni/net.d/10-speed.conflist <<'E'\n"+bridgeConf+"\nE\n")
	m.kubelet = kubelet
	m.supervise()

	line := append(cp.joinLine(), "--patches", m.patches(), "--ignore-preflight-errors=all")
	start := time.Now()
	r := m.run(filepath.Join(bin, "bundle", "kubeadm"), append([]string{"kubeadm"}, line...)...)
	if r.code != 0 {
		cp.t.Fatalf("kubeadm join: code %d: %s%s\nsupervisor:\n%s", r.code, r.out, r.err, tail(m.log("supervisor")))
	}
	defer func() {
		if cp.t.Failed() || os.Getenv("PORTHOLE_JOIN_LOGS") != "" {
			cp.t.Logf("supervisor of %s:\n%s", name, tail(m.log("supervisor")))
		}
	}()
	wait.NoError(cp.t, time.Minute, "node "+name+" Ready", func() error {
		n := cp.node(name)
		if n == nil {
			return errors.New("there is no such node")
		}
		if isReady(n) {
			return nil
		}
		return fmt.Errorf("its conditions are %+v", n.Status.Conditions)
	})
	return m, time.Since(start).Seconds()
}

// cgroups makes the root of the kubelet's cgroups, which upstream's kubelet does not make. On cgroup v1 the new one
// needs the processors and memory of the one above it.
func (m *machine) cgroups() {
	m.t.Helper()
	run := func(script string) {
		m.t.Helper()
		if out, err := exec.Command("bash", "-c", "N="+m.name+"\n"+script).CombinedOutput(); err != nil {
			m.t.Errorf("making or removing cgroups: %v: %s", err, out)
		}
	}
	run(`[ -e /sys/fs/cgroup/cgroup.controllers ] && { mkdir -p /sys/fs/cgroup/porthole/$N; exit; }
for d in /sys/fs/cgroup/*/; do mkdir -p $d/porthole/$N
  for p in porthole porthole/$N; do for f in cpuset.cpus cpuset.mems; do [ ! -e $d/$f ] || cat $d/$f > $d/$p/$f; done; done; done`)
	m.t.Cleanup(func() {
		run(`find /sys/fs/cgroup -path "*/porthole/$N*" -depth -type d -exec rmdir {} \; 2>/dev/null; true`)
	})
}
