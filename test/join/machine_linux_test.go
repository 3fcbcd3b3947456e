package join

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/cluster/containerdconf"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/testkit/wait"
)

// machine is a Linux machine with containerd, in namespaces of network, mounts, names and processes, on which nothing
// of Kubernetes has been set up.
type machine struct {
	t          testing.TB
	name       string
	address    string
	dir        string // on the disk: containerd's files and logs
	holder     *exec.Cmd
	init       string // pid of the machine's first process; with it all others end
	containerd *exec.Cmd
	supervisor *exec.Cmd
	kubelet    string // command line of another kubelet than ours; "": ours
	kubeadm    string // of a control plane: kubeadm and its programs
}

// own are the folders that each machine has for itself.
var own = []string{"/run", "/etc/kubernetes", "/var/lib/kubelet", "/var/lib/etcd", "/etc/cni", "/opt/cni",
	"/var/log/pods", "/var/log/containers",
	"/var/lib/cni", "/var/lib/porthole-node", "/usr/lib/porthole", "/etc/default"}

// newMachine starts a machine. It ends with the test.
func newMachine(t testing.TB, name, address string) *machine {
	t.Helper()
	m := &machine{t: t, name: name, address: address, dir: filepath.Join(state, name)}
	must(t, os.MkdirAll(m.dir, 0o755))
	must(t, lab.Default.EnsureHost(name, netip.MustParseAddr(address)))
	t.Cleanup(func() { _ = lab.Default.RemoveHost(name) })

	id := filepath.Join(m.dir, "machine-id")
	must(t, os.WriteFile(id, fmt.Appendf(nil, "%032x\n", []byte(name)), 0o644))
	var script strings.Builder
	script.WriteString("set -e\n")
	for _, dir := range own {
		must(t, os.MkdirAll(dir, 0o755))
		fmt.Fprintf(&script, "mount -t tmpfs -o mode=755 %s %s\n", name, dir)
	}
	// As an installer of Debian writes it: a program that asks for the machine's own address waits for no name server.
	for file, text := range map[string]string{"hosts": "127.0.0.1 localhost\n127.0.1.1 " + name + "\n",
		"resolv.conf": "# no server can be reached from here\n"} {
		path := filepath.Join(m.dir, file)
		must(t, os.WriteFile(path, []byte(text), 0o644))
		fmt.Fprintf(&script, "mount --bind %s /etc/%s\n", path, file)
	}
	fmt.Fprintf(&script,
		"mount --bind %s /etc/machine-id\nhostname %s\nmkdir -p /run/containerd\nln -s %s/c/containerd.sock /run/containerd/containerd.sock\n", id, name, m.dir)
	script.WriteString("sysctl -qw net.ipv4.ip_forward=1\necho ready\nexec sleep infinity\n")

	m.holder = exec.Command("nsenter", "--net=/run/netns/"+lab.Default.Netns(name), "unshare", "-m", "-u", "-p",
		"--fork", "--kill-child", "--mount-proc", "--propagation", "private", "bash", "-c", script.String())
	m.start(m.holder, "holder")
	wait.True(t, time.Minute, "machine "+name, func() bool { return strings.Contains(m.log("holder"), "ready") })
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", m.holder.Process.Pid))
	must(t, err)
	m.init = m.childOf(strings.Fields(string(children)))
	m.startContainerd()
	return m
}

// childOf returns the only child: nsenter has become unshare, and that has forked.
func (m *machine) childOf(children []string) string {
	m.t.Helper()
	if len(children) != 1 {
		m.t.Fatalf("machine %s has the processes %v", m.name, children)
	}
	return children[0]
}

// start runs a command with its output in a log of the machine; it ends with the test.
func (m *machine) start(c *exec.Cmd, name string) {
	m.t.Helper()
	log, err := os.Create(filepath.Join(m.dir, name+".log"))
	must(m.t, err)
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(m.t, c.Start())
	m.t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
	})
}

func (m *machine) log(name string) string {
	text, _ := os.ReadFile(filepath.Join(m.dir, name+".log"))
	return string(text)
}

// inside returns a command that runs in the machine.
func (m *machine) inside(program string, args ...string) *exec.Cmd {
	c := exec.Command("nsenter", append([]string{"-t", m.init, "-m", "-u", "-n", "-p", "--", program}, args...)...)
	c.Env = append(os.Environ(), "PATH="+bin+"/bundle:"+os.Getenv("PATH")+":/usr/sbin:/sbin",
		"KUBECONFIG=/etc/kubernetes/admin.conf")
	return c
}

// result is what a command printed and returned.
type result struct {
	out, err string
	code     int
	took     time.Duration
}

// run runs a program in the machine and waits for it.
func (m *machine) run(program string, args ...string) result {
	m.t.Helper()
	return m.runWith(context.Background(), "", program, args...)
}

func (m *machine) runWith(ctx context.Context, stdin, program string, args ...string) result {
	m.t.Helper()
	c := m.inside(program, args...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &errs
	start := time.Now()
	must(m.t, c.Start())
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	select {
	case <-done:
	case <-ctx.Done():
		_ = c.Process.Kill()
		<-done
	}
	return result{out.String(), errs.String(), c.ProcessState.ExitCode(), time.Since(start)}
}

// ok runs a program that must succeed, and returns what it printed.
func (m *machine) ok(program string, args ...string) string {
	m.t.Helper()
	r := m.run(program, args...)
	if r.code != 0 {
		m.t.Fatalf("%s: %s %s: code %d\n%s%s", m.name, program, strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

func (m *machine) startContainerd() {
	m.t.Helper()
	o := containerdconf.Options{Dir: filepath.Join(m.dir, "c"), SandboxImage: pauseImage, CNIConfDir: "/etc/cni/net.d",
		CNIBinDir: "/opt/cni/bin", InternalLoopback: true}
	must(m.t, containerdconf.Write(o))
	m.containerd = m.inside(filepath.Join(bin, "bundle", "containerd"), "--config", o.File())
	m.start(m.containerd, "containerd")
	wait.NoError(m.t, time.Minute, "containerd of "+m.name, func() error {
		c, err := net.Dial("unix", o.Socket()) // its file is there before it listens
		if err == nil {
			c.Close()
		}
		return err
	})
}

// supervise starts the supervisor: it runs the kubelet, and porthole-routes, as soon as their files are there, again
// when they end, and no longer than these files are there. Programs that join installed count.
func (m *machine) supervise() {
	m.t.Helper()
	script := `
p() { [ -x /usr/lib/porthole/porthole ] && echo /usr/lib/porthole/porthole || echo $P; }
kubelet() { while sleep 0.05; do
  if [ -e /var/lib/kubelet/config.yaml ] && [ -e /var/lib/kubelet/kubeadm-flags.env ] && { [ -e /etc/kubernetes/kubelet.conf ] || [ -e /etc/kubernetes/bootstrap-kubelet.conf ]; }; then
    . /var/lib/kubelet/kubeadm-flags.env
    ${K:-$(p) kubelet} --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS &
    follow $! /var/lib/kubelet/config.yaml
  fi
done; }
routes() { while sleep 0.05; do
  if [ -e /etc/kubernetes/kubelet.conf ] && [ -e /etc/kubernetes/porthole-routes.env ]; then
    . /etc/kubernetes/porthole-routes.env
    $(p) routes --kubeconfig=/etc/kubernetes/kubelet.conf $PORTHOLE_ROUTES_ARGS &
    follow $! /etc/kubernetes/porthole-routes.env
  fi
done; }
follow() { while kill -0 $1 2>/dev/null; do [ -e $2 ] || kill $1; sleep 0.1; done; }
kubelet & routes & wait`
	m.supervisor = m.inside("bash", "-c", "P="+filepath.Join(bin, "porthole")+"\nK='"+m.kubelet+"'\n"+script)
	m.start(m.supervisor, "supervisor")
}

// kubectl runs kubectl as the administrator; only the control plane's machine can.
func (m *machine) kubectl(args ...string) string {
	m.t.Helper()
	return m.ok(m.kubeadm, append([]string{"kubectl"}, args...)...)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
