package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestKillEachProcess kills every process of every node, one after the other, and the supervisor. Each time the node is
// right again within 30 s, and no container was restarted. Those with which containers end are left to TestKillHost.
// Rows 1.02, 1.116.
func TestKillEachProcess(t *testing.T) {
	pods, clusterIP := echoPods(t)
	before := containers(t)
	s := readStatus(t)

	var victims []process
	for _, n := range s.Nodes {
		for _, p := range n.Processes {
			if n.Name != "win02" && !endsContainers(p.Name) { // win02 has the same programs as win01
				victims = append(victims, p)
			}
		}
	}

	victims = append(victims, s.Processes...)
	for _, victim := range victims {
		t.Run(strings.ReplaceAll(victim.Name, "/", "-"), func(t *testing.T) {
			started := time.Now()
			kill(t, current(t, victim.Name).PID)
			wait.NoError(t, 30*time.Second, victim.Name+" to come back", func() error {
				p := current(t, victim.Name)
				if p.Phase != "running" || p.Restarts <= victim.Restarts {
					return fmt.Errorf("%s is %s after %d restarts", p.Name, p.Phase, p.Restarts)
				}
				return healthy(t, pods, clusterIP)
			})
			t.Logf("%s: right again after %.1f s", victim.Name, time.Since(started).Seconds())
		})
	}

	t.Run("supervisor", func(t *testing.T) {
		started := time.Now()
		kill(t, s.Supervisor.PID)
		wait.NoError(t, 30*time.Second, "the supervisor to be replaced", func() error {
			now := readStatus(t)
			if now.Supervisor.PID == 0 || now.Supervisor.PID == s.Supervisor.PID || now.Standby.PID == 0 ||
				now.Standby.PID == now.Supervisor.PID {
				return fmt.Errorf("supervisor %d, standby %d", now.Supervisor.PID, now.Standby.PID)
			}
			return healthy(t, pods, clusterIP)
		})
		t.Logf("another supervisor after %.1f s", time.Since(started).Seconds())
	})

	for name, id := range containers(t) {
		if before[name] != id {
			t.Errorf("container %s was replaced", name)
		}
	}
}

// endsContainers reports whether the containers of a node end with a process: on Windows with the kernel, which is
// wineserver here, and with the Host Compute Service, whose end hcsshim takes for that of all containers.
func endsContainers(name string) bool {
	return name == "win01/hcsd" || name == "win01/wineserver"
}

// TestKillHost kills what the containers of a Windows node end with. Its pods come back by themselves, and nothing of
// before is left.
func TestKillHost(t *testing.T) {
	pods, clusterIP := echoPods(t)
	for _, name := range []string{"win01/hcsd", "win01/wineserver"} {
		t.Run(strings.ReplaceAll(name, "/", "-"), func(t *testing.T) {
			victim, before, inventory := current(t, name), pods["win01"], settledHNS(t)
			programs, err := testkit.WineProcesses(filepath.Join(dir, "hosts", "win01"))
			if err != nil {
				t.Fatal(err)
			}
			started := time.Now()
			kill(t, victim.PID)

			wait.NoError(t, 90*time.Second, "the pod of win01 to come back", func() error {
				p := current(t, name)
				if p.Phase != "running" || p.Restarts <= victim.Restarts {
					return fmt.Errorf("%s is %s after %d restarts", p.Name, p.Phase, p.Restarts)
				}
				pod, err := getPod(before.Name)
				if err != nil {
					return err
				}
				if err := isReady(pod); err != nil || containerOf(*pod) == containerOf(before) {
					return fmt.Errorf("%s has the container %s: %w", pod.Name, containerOf(*pod), err)
				}
				pods["win01"] = *pod
				return healthy(t, pods, clusterIP)
			})
			t.Logf("%s: right again after %.1f s", name, time.Since(started).Seconds())

			if name == "win01/wineserver" { // a reboot
				if err := testkit.StillRunning(filepath.Join(dir, "hosts", "win01"), programs); err != nil {
					t.Error("of before ", err)
				}
			}
			wait.NoError(t, 30*time.Second, "HNS to have what it had", func() error {
				if now := inventoryHNS(t); now != inventory {
					return fmt.Errorf("before:\n%s\nafter:\n%s", inventory, now)
				}
				return nil
			})
		})
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("no process to kill: pid %d", pid)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func current(t *testing.T, name string) process {
	t.Helper()
	s := readStatus(t)
	all := s.Processes
	for _, n := range s.Nodes {
		all = append(all, n.Processes...)
	}
	for _, p := range all {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no process %s", name)
	return process{}
}

// containers returns the id of every container of the echo pods.
func containers(t *testing.T) map[string]string {
	t.Helper()
	var list v1.PodList
	object(t, &list, "pods", "-l", "app=echo")
	ids := map[string]string{}
	for _, pod := range list.Items {
		for _, c := range pod.Status.ContainerStatuses {
			ids[pod.Name+"/"+c.Name] = fmt.Sprint(c.ContainerID, " restarts ", c.RestartCount)
		}
	}
	return ids
}

// healthy: all nodes are Ready, all processes run, and packets pass from every pod to the service.
func healthy(t *testing.T, pods map[string]v1.Pod, clusterIP string) error {
	for _, n := range readStatus(t).Nodes {
		if !n.Ready {
			return fmt.Errorf("node %s is not Ready: %s", n.Name, n.Reason)
		}
		if n.Routes.Error != "" || n.Routes.Present != n.Routes.Wanted {
			return fmt.Errorf("node %s: routes %+v", n.Name, n.Routes)
		}
		if n.OS == "windows" && (n.Services.Error != "" || n.Services.Present != n.Services.Wanted) {
			return fmt.Errorf("node %s: services %+v", n.Name, n.Services)
		}
		for _, p := range n.Processes {
			if p.Phase != "running" {
				return fmt.Errorf("process %s is %s", p.Name, p.Phase)
			}
		}
	}
	for node, pod := range pods {
		if _, err := fromPod(pod, fetch("http://"+clusterIP+"/")); err != nil {
			return fmt.Errorf("from %s to the service: %w", node, err)
		}
	}
	return nil
}

// TestProxyRestart kills kube-proxy.exe: it must find everything right, write nothing, and break no open connection.
func TestProxyRestart(t *testing.T) {
	_, clusterIP := echoPods(t)
	healthyWrites := settledWrites(t, "win01")
	conn, err := dialIn("porthole-win01", clusterIP+":7000")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ping(t, conn)
	before := current(t, "win01/kube-proxy")

	kill(t, before.PID)
	wait.NoError(t, 30*time.Second, "the restarted kube-proxy", func() error {
		p := current(t, "win01/kube-proxy")
		if p.Restarts <= before.Restarts || p.Phase != "running" {
			return fmt.Errorf("kube-proxy is %s", p.Phase)
		}
		for _, n := range readStatus(t).Nodes {
			if n.Name == "win01" && (n.Services.Error != "" || n.Services.Wanted < 2 ||
				n.Services.Present != n.Services.Wanted) {
				return fmt.Errorf("services %+v", n.Services)
			}
		}
		return nil
	})

	ping(t, conn)
	if after := writes(t, "win01"); after != healthyWrites {
		t.Errorf("a restart of kube-proxy made HNS writes: %s before, %s after", healthyWrites, after)
	}
}

// settledWrites waits until what earlier changes asked for has reached the host: no pod is being deleted, kube-proxy
// has nothing to write, and nobody has written for eight seconds. The check of `porthole up` leaves pods that go away
// long after it has returned, and the network of a pod goes later than its object: containerd.exe may see the end of a
// container up to five seconds late.
func settledWrites(t *testing.T, host string) string {
	t.Helper()
	last, since := writes(t, host), time.Now()
	wait.NoError(t, 90*time.Second, "an end of the writes to HNS", func() error {
		if now := writes(t, host); now != last {
			last, since = now, time.Now()
		}
		out, err := kubectlErr("get", "pods", "-A", "-o",
			"jsonpath={range .items[?(@.metadata.deletionTimestamp)]}{.metadata.name} {end}")
		if err != nil || strings.TrimSpace(out) != "" {
			since = time.Now()
			return fmt.Errorf("pods are being deleted: %s %v", out, err)
		}
		if out, code := diffOf(t, host); code != 0 {
			since = time.Now()
			return fmt.Errorf("kube-proxy has something to write: %s", out)
		}
		if quiet := time.Since(since); quiet < 8*time.Second {
			return fmt.Errorf("the last write to HNS was %s ago: %s", quiet, last)
		}
		return nil
	})
	return last
}

func ping(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	buffer := make([]byte, 16)
	if _, err := conn.Write([]byte("ping\n")); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(buffer); err != nil || string(buffer[:n]) != "ping\n" {
		t.Fatalf("open connection: %q, %v", buffer[:n], err)
	}
}

// writes returns the counters of the calls that change HNS.
func writes(t *testing.T, host string) string {
	t.Helper()
	out, err := command(20*time.Second, porthole, "host", "hns", "--dir", dir, host, "stats", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var counts map[string]any
	if err := unmarshal(out, &counts); err != nil {
		t.Fatal(err)
	}
	if inner, ok := counts["calls"].(map[string]any); ok {
		counts = inner
	}
	total := ""
	for _, kind := range []string{"Network", "Endpoint", "Namespace", "LoadBalancer", "SdnRoute"} {
		for _, verb := range []string{"Create", "Modify", "Delete"} {
			if n, ok := counts["Hcn"+verb+kind]; ok {
				total += fmt.Sprintf("%s%s=%v ", verb, kind, n)
			}
		}
	}
	return total
}

// TestNothingIsLeft: after all pods are deleted, a host has exactly what it had before, and no folder of a pod.
func TestNothingIsLeft(t *testing.T) {
	inventory := func() string {
		var all []string
		for _, host := range []string{"win01", "win02"} {
			out, err := command(20*time.Second, porthole, "host", "hns", "--dir", dir, host, "dump", "-o", "json")
			if err != nil {
				return err.Error()
			}
			var dump map[string]any
			if err := unmarshal(out, &dump); err != nil {
				return err.Error()
			}

			for kind, list := range dump {
				if objects, ok := list.([]any); ok {
					all = append(all, fmt.Sprintf("%s %s: %d", host, kind, len(objects)))
				} else if objects, ok := list.(map[string]any); ok {
					all = append(all, fmt.Sprintf("%s %s: %d", host, kind, len(objects)))
				}
			}
		}

		for _, kind := range []string{"overlay", "nsfs", "tmpfs"} {
			out, _ := command(5*time.Second, "findmnt", "-rn", "-t", kind, "-o", "TARGET")
			for _, line := range strings.Fields(out) {
				if strings.Contains(line, dir) {
					all = append(all, line)
				}
			}
		}

		for _, host := range []string{"lin01", "win01", "win02"} {
			for _, kind := range []string{"containers", "tasks"} {
				out, err := command(20*time.Second, porthole, "host", "ctr", "--dir", dir, host, kind)
				if err == nil {
					all = append(all, host+" "+kind+" "+strings.Join(strings.Fields(out), " "))
				}
			}
		}

		return sorted(all)
	}

	settleInventory(t, inventory)
	before := inventory()
	echoPodsInScope(t)
	wait.NoError(t, 60*time.Second, "the machine to be as before", func() error {
		if after := inventory(); after != before {
			return fmt.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		return foldersOfNobody(t)
	})
}

// foldersOfNobody returns an error that names folders of volumes and logs of Windows pods without a Pod object.
func foldersOfNobody(t *testing.T) error {
	var list v1.PodList
	object(t, &list, "pods", "-A")
	pods := map[string]bool{}
	for _, p := range list.Items {
		pods[string(p.UID)] = true
	}
	var errs []error
	for _, host := range []string{"win01", "win02"} {
		for _, parent := range []string{"var/lib/kubelet/pods", "var/log/pods"} {
			entries, err := os.ReadDir(filepath.Join(driveC(host), parent))
			errs = append(errs, err)
			for _, e := range entries {
				// <namespace>_<name>_<UID> where logs are
				if uid := e.Name()[strings.LastIndex(e.Name(), "_")+1:]; !pods[uid] {
					errs = append(errs, fmt.Errorf("left: %s", filepath.Join(driveC(host), parent, e.Name())))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// driveC is the folder that a Windows host of the cluster sees as C:.
func driveC(host string) string { return filepath.Join(dir, "hosts", host, "prefix", "drive_c") }

// TestPrivateFolders: what Windows pods log, and the keys of the kubelet, nobody reads but SYSTEM and administrators
// (CVE-2024-5321). On an emulated host access lists are modes of Linux.
func TestPrivateFolders(t *testing.T) {
	for _, path := range []string{"var/log/pods", "var/log/containers", "var/lib/kubelet/pki",
		"var/lib/kubelet/checkpoints"} {
		info, err := os.Stat(filepath.Join(driveC("win01"), path))
		if err != nil {
			t.Error(err)
		} else if info.Mode().Perm()&0o007 != 0 {
			t.Errorf("%s: others may use it: mode %v", path, info.Mode().Perm())
		}
	}
}

// echoPodsInScope makes pods and removes them again before it returns.
func echoPodsInScope(t *testing.T) {
	t.Run("pods", func(t *testing.T) { echoPods(t) })
}

// settleInventory waits until what earlier tests removed is gone.
func settleInventory(t *testing.T, inventory func() string) {
	last := ""
	wait.NoError(t, 90*time.Second, "the deleted pods to be gone", func() error {
		out, err := kubectlErr("get", "pods", "-A", "-o",
			"jsonpath={range .items[?(@.metadata.deletionTimestamp)]}{.metadata.name} {end}")
		if err != nil || strings.TrimSpace(out) != "" {
			return fmt.Errorf("still being deleted: %s %v", out, err)
		}
		now := inventory()
		if now != last {
			last = now
			return fmt.Errorf("still changing: %s", now)
		}
		return foldersOfNobody(t) // the kubelet removes them when nothing of their pod runs any more
	})
}
