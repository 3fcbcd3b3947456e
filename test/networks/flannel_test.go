package networks

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// flannelTest is a cluster whose Linux node has flanneld in place of porthole routes.
type flannelTest struct{ faultTest }

// TestFlannelOnLinux: real flanneld is the agent of the Linux node, in its backends vxlan and host-gw, and porthole
// routes that of the Windows nodes, as in a cluster whose Linux nodes had flannel before. Then the Linux node goes
// over to porthole routes.
// Rows 1.63, 1.72.
func TestFlannelOnLinux(t *testing.T) {
	long(t)
	for _, with := range []struct {
		mode, backend string
		want          promise
	}{
		{"vxlan", `{"Type": "vxlan", "VNI": 4096, "Port": 4789}`,
			promise{mtu: 1450, encap: "vxlan", vni: 4096, port: 4789}},
		{"host-gateway", `{"Type": "host-gw"}`, promise{mtu: 1500, via: func(_, to string) string { return to },
			hops: func(l *lab, from, to string) []string { return []string{l.firstHop(from), l.nodes[to].String()} }}},
	} {
		t.Run(with.mode, func(t *testing.T) {
			f := flannelTest{faultTest{pathCheck{up(t, with.mode).fleet()}}}
			thaw := f.freeze("lin01/routes")
			f.forgetLin01()
			stop := f.flanneld(with.backend)

			f.carriedBy("flanneld", func(routes string) error {
				if strings.Contains(routes, "proto 201") || strings.Count(routes, " via ") != len(nodeNames)-1 {
					return fmt.Errorf("lin01 has the routes\n%s", routes)
				}
				return nil
			})
			f.checkPaths(with.want)
			f.checkLin01Leaves(stop, thaw)
		})
	}
}

// forgetLin01 takes away what the agent of lin01 has made for other nodes, and waits until packets no longer pass.
func (f flannelTest) forgetLin01() {
	f.t.Helper()
	if f.mode == "vxlan" {
		f.ip("lin01", "link", "del", "flannel.4096")
	}
	f.ip("lin01", "route", "flush", "proto", "201")
	if f.pinged("a-lin01", "a-win01")() == nil {
		f.t.Fatal("packets pass without an agent of lin01")
	}
}

// podRoutes returns the routes of lin01 to the pods of other nodes as ip prints them.
func (f flannelTest) podRoutes() string {
	return f.ip("lin01", "route", "show", "root", "10.244.0.0/16", "scope", "global")
}

// carriedBy waits until the routes of lin01 are right and packets pass in both directions.
func (f flannelTest) carriedBy(who string, right func(routes string) error) {
	f.t.Helper()
	started := time.Now()
	wait.NoError(f.t, 60*time.Second, who+" to carry packets", func() error {
		return errors.Join(right(f.podRoutes()), f.pinged("a-lin01", "a-win01")(), f.pinged("a-win02", "a-lin01")())
	})
	f.t.Logf("packets pass after %v", time.Since(started).Round(10*time.Millisecond))
}

// checkLin01Leaves ends flanneld and lets porthole routes go on in its place: no packet is lost, and a VXLAN device
// stays.
func (f flannelTest) checkLin01Leaves(stop, thaw func()) {
	f.t.Helper()
	device := func() string {
		if f.mode != "vxlan" {
			return ""
		}
		return f.ip("lin01", "-o", "link", "show", "flannel.4096")
	}
	before, pings := device(), f.pings()
	stop()
	thaw()
	f.carriedBy("porthole routes", func(routes string) error {
		if strings.Count(routes, "proto 201") != len(nodeNames)-1 ||
			strings.Count(routes, " via ") != len(nodeNames)-1 {
			return fmt.Errorf("lin01 has the routes\n%s", routes)
		}
		return f.healthy()
	})
	if sent, lost := pings(); lost > 0 {
		f.t.Errorf("%d of %d packets were lost when porthole routes took over from flanneld", lost, sent)
	}
	if after := device(); after != before {
		f.t.Errorf("the device was\n%sand is\n%s", before, after)
	}
}

// flanneld starts flannel's agent on lin01, until stop is called or the test ends.
func (f flannelTest) flanneld(backend string) (stop func()) {
	f.t.Helper()
	folder := f.t.TempDir()
	conf := filepath.Join(folder, "net-conf.json")
	if err := os.WriteFile(conf, []byte(`{"Network": "10.244.0.0/16", "Backend": `+backend+`}`), 0o644); err != nil {
		f.t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer log.Close()

	cmd := exec.Command(filepath.Join(filepath.Dir(porthole), "bundle", "flanneld"), "-kube-subnet-mgr",
		"-kubeconfig-file="+filepath.Join(dir, "pki", "routes.kubeconfig"),
		"-net-config-path="+conf, "-iface=eth0", "-ip-masq=false", "-iptables-forward-rules=false",
		"-subnet-file="+filepath.Join(folder, "subnet.env"), "-healthz-port=0")
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(os.Environ(), "NODE_NAME=lin01",
		"PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := platform.StartInNetns(platform.NetnsPath("porthole-lin01"), cmd); err != nil {
		f.t.Fatal(err)
	}
	ended := false
	stop = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		}
	}
	f.t.Cleanup(func() {
		stop()
		if data, err := os.ReadFile(log.Name()); err == nil && f.t.Failed() {
			f.t.Logf("---- flanneld\n%s", data[max(0, len(data)-4000):])
		}
	})
	return stop
}
