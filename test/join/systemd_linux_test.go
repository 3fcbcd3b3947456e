package join

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/cluster/containerdconf"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/join/step"
)

// systemdMachine is a machine whose first process is this distribution's systemd, on a root of its own over the files
// of this machine. It can be rebooted: then what is on its disk stays, and its network and processes do not.
type systemdMachine struct {
	*machine
	boots int
}

// masked are units that would act on the machine on which the tests run: its kernel's settings, devices and terminals
// are shared.
var masked = []string{"systemd-sysctl.service", "systemd-modules-load.service", "systemd-remount-fs.service",
	"systemd-udevd.service", "systemd-udev-trigger.service",
	"systemd-tmpfiles-setup-dev.service", "systemd-tmpfiles-setup.service", "systemd-timesyncd.service",
	"systemd-logind.service", "getty.target", "console-getty.service",
	"systemd-update-utmp.service", "systemd-update-utmp-runlevel.service", "systemd-sysusers.service",
	"systemd-binfmt.service", "sys-kernel-debug.mount",
	"sys-kernel-tracing.mount", "dev-hugepages.mount", "dev-mqueue.mount", "systemd-machine-id-commit.service",
	"systemd-firstboot.service", "systemd-random-seed.service", "proc-sys-fs-binfmt_misc.automount"}

// boot is the script that starts systemd: it makes the root, and its own part of systemd's control groups.
const boot = `set -e
dir=DIR name=NAME
mount -t overlay overlay -o lowerdir=/,upperdir=$dir/upper,workdir=$dir/work $dir/merged
cd $dir/merged
mount -t proc proc proc
mount --rbind /sys sys
if [ -d /sys/fs/cgroup/systemd ]; then
  mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup # in which systemd makes folders, and which it makes read-only
  for hierarchy in /sys/fs/cgroup/*/; do
    mountpoint -q "$hierarchy" || continue
    to=sys/fs/cgroup/$(basename "$hierarchy")
    mkdir "$to"
    if [ "$hierarchy" = /sys/fs/cgroup/systemd/ ]; then mount -t cgroup -o none,name=systemd cgroup "$to"
    else mount --bind "$hierarchy" "$to"; fi
  done
else umount sys/fs/cgroup; mount -t cgroup2 cgroup2 sys/fs/cgroup; fi
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for n in null zero full random urandom tty kmsg; do touch dev/$n; mount --bind /dev/$n dev/$n; done
mkdir dev/pts dev/shm; mount -t devpts devpts dev/pts -o newinstance,ptmxmode=0666; ln -s pts/ptmx dev/ptmx; ln -s /proc/self/fd dev/fd
mount -t tmpfs tmpfs dev/shm
mount --bind $dir .$dir
mount --bind $dir/boot-id proc/sys/kernel/random/boot_id
mount --bind $dir/machine-id etc/machine-id
echo $name > etc/hostname
if [ -d $dir/units ]; then # the first boot
  rm -rf etc/systemd/system
  mv $dir/units etc/systemd/system
fi
mkdir -p .old
pivot_root . .old
umount -l .old
sysctl -qw net.ipv4.ip_forward=1
exec env -i container=porthole PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=multi-user.target --log-target=journal-or-kmsg --show-status=no
`

// newSystemdMachine makes a machine with containerd as a unit, which has systemd make its cgroups, and boots it.
func newSystemdMachine(t testing.TB, name, address string) *systemdMachine {
	t.Helper()
	if _, err := os.Stat("/lib/systemd/systemd"); err != nil {
		t.Skip("this machine has no systemd to start")
	}
	m := &systemdMachine{machine: &machine{t: t, name: name, address: address, dir: filepath.Join(state, name)}}
	for _, dir := range []string{"upper", "work", "merged", "units/multi-user.target.wants"} {
		must(t, os.MkdirAll(filepath.Join(m.dir, dir), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(m.dir, "machine-id"), fmt.Appendf(nil, "%032x\n", []byte(name)), 0o644))
	for _, unit := range masked {
		must(t, os.Symlink("/dev/null", filepath.Join(m.dir, "units", unit)))
	}

	o := containerdconf.Options{Dir: filepath.Join(m.dir, "c"), SandboxImage: pauseImage, CNIConfDir: "/etc/cni/net.d",
		CNIBinDir: "/opt/cni/bin", InternalLoopback: true, SystemdCgroup: true}
	must(t, containerdconf.Write(o))
	unit := fmt.Sprintf(
		"[Unit]\nDescription=containerd\n[Service]\nEnvironment=PATH=%s/bundle:/usr/sbin:/usr/bin:/sbin:/bin\nExecStartPre=/bin/mkdir -p /run/containerd\n"+
			"ExecStartPre=/bin/ln -sfn %s /run/containerd/containerd.sock\nExecStart=%s --config %s\nDelegate=yes\nKillMode=process\nRestart=always\nRestartSec=1\n[Install]\nWantedBy=multi-user.target\n",
		bin, o.Socket(), filepath.Join(bin, "bundle", "containerd"), o.File())
	must(t, os.WriteFile(filepath.Join(m.dir, "units", "containerd.service"), []byte(unit), 0o644))
	t.Cleanup(func() { // controllers that no systemd manages here are those of all machines
		_ = exec.Command("find", "/sys/fs/cgroup", "(", "-path", "*/porthole.slice/porthole-"+name+".slice*", "-o",
			"-path", "*/porthole.slice", ")", "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").Run()
	})
	must(t, os.Symlink("../containerd.service",
		filepath.Join(m.dir, "units/multi-user.target.wants/containerd.service")))
	m.boot()
	return m
}

// boot starts the machine, and returns when systemd has started all and containerd answers.
func (m *systemdMachine) boot() {
	m.t.Helper()
	m.boots++
	must(m.t, lab.Default.EnsureHost(m.name, netip.MustParseAddr(m.address)))
	m.t.Cleanup(func() { _ = lab.Default.RemoveHost(m.name) })
	must(m.t, os.WriteFile(filepath.Join(m.dir, "boot-id"),
		fmt.Appendf(nil, "00000000-0000-0000-0000-%012d\n", m.boots), 0o644))
	script := strings.NewReplacer("DIR", m.dir, "NAME", m.name).Replace(boot)
	group := "/sys/fs/cgroup"
	if _, err := os.Stat(group + "/systemd"); err == nil {
		group += "/systemd"
	}
	group = filepath.Join(group, "porthole-"+m.name)
	must(m.t, os.MkdirAll(group, 0o755))
	m.t.Cleanup(func() {
		// what still has processes stays
		_ = exec.Command("find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").Run()
	})

	m.holder = exec.Command("bash", "-c",
		"echo $$ > "+group+"/cgroup.procs; exec nsenter --net=/run/netns/"+lab.Default.Netns(m.name)+
			` unshare -m -u -p -i -C --fork --kill-child --mount-proc --propagation private bash -c "$0"`, script)
	m.start(m.holder, fmt.Sprintf("holder%d", m.boots))
	wait.True(m.t, time.Minute, "machine "+m.name, func() bool {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", m.holder.Process.Pid))
		if list := strings.Fields(string(children)); err == nil && len(list) == 1 {
			comm, err := os.ReadFile("/proc/" + list[0] + "/comm")
			m.init = list[0]
			return err == nil && strings.TrimSpace(string(comm)) == "systemd"
		}
		return false
	})
	wait.True(m.t, 2*time.Minute, "systemd of "+m.name, func() bool {
		out := strings.TrimSpace(m.run("systemctl", "is-system-running").out)
		return (out == "running" || out == "degraded") &&
			m.run("test", "-S", filepath.Join(m.dir, "c", "containerd.sock")).code == 0
	})
}

// reboot cuts the power and boots again.
func (m *systemdMachine) reboot() {
	m.t.Helper()
	must(m.t, m.holder.Process.Kill())
	_ = m.holder.Wait() // it was killed
	must(m.t, lab.Default.RemoveHost(m.name))
	must(m.t, os.RemoveAll(filepath.Join(m.dir, "c", "state")))
	_ = os.Remove(filepath.Join(m.dir, "c", "containerd.sock")) // it may be gone
	m.boot()
}

// unit returns properties of a unit, with spaces between them.
func (m *systemdMachine) unit(name string, properties ...string) string {
	m.t.Helper()
	values := map[string]string{} // systemctl prints them in an order of its own
	for _, line := range strings.Split(m.ok("systemctl", "show", name+".service", "-p", strings.Join(properties, ",")),
		"\n") {
		key, value, _ := strings.Cut(line, "=")
		values[key] = value
	}
	var out []string
	for _, p := range properties {
		out = append(out, values[p])
	}
	return strings.TrimSpace(strings.Join(out, " "))
}

// TestSystemd: a machine with systemd becomes a node, from the package and without it. systemd starts the units again
// after kills and a reboot, and leave stops and disables them.
func TestSystemd(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN") == "" {
		t.Skip("PORTHOLE_JOIN=long, or `make test-join`")
	}
	cp := newControlPlane(t, "cp02", "10.99.0.22")
	for name, test := range map[string]func(*systemdMachine, *machine){"programs": (*systemdMachine).fromPrograms,
		"package": (*systemdMachine).fromPackage} {
		t.Run(name, func(t *testing.T) {
			m := newSystemdMachine(t, map[string]string{"programs": "lin21", "package": "lin22"}[name],
				map[string]string{"programs": "10.99.0.61", "package": "10.99.0.62"}[name])
			m.importImage(filepath.Join(bin, "bundle", "images", "linux", "pause"), []string{"pause"},
				[]string{pauseImage})
			test(m, cp.at(t).machine)
		})
	}
}

// fromPrograms joins with unpacked programs: join copies them and writes the units.
func (m *systemdMachine) fromPrograms(cp *machine) {
	line := append(cp.joinLine(), "--patches", m.patches(), "--timeout", "3m", "--env", "GOMEMLIMIT=777MiB")
	m.joins(cp, filepath.Join(bin, "porthole"), line)
	if path := m.unit("kubelet", "FragmentPath"); path != "/etc/systemd/system/kubelet.service" {
		m.t.Errorf("the unit of the kubelet is %s", path)
	}
	m.runsPod(cp)
	m.comesBack(cp)
	m.exchanges()
	m.reboot()
	m.afterBoot(cp)
	m.leaves(filepath.Join(bin, "porthole"))
	for _, path := range []string{"/etc/systemd/system/kubelet.service", "/etc/systemd/system/kubelet.service.d",
		"/etc/systemd/system/porthole-routes.service", "/usr/lib/porthole", "/etc/kubernetes/porthole.env"} {
		if m.run("test", "-e", path).code == 0 {
			m.t.Errorf("%s is left", path)
		}
	}
}

// fromPackage joins with the programs of the Debian package, which leave does not remove.
func (m *systemdMachine) fromPackage(cp *machine) {
	dir := filepath.Join(state, "packages")
	build := exec.Command("go", "run", "../../tools/release", "-root", "../..", "-version", "v0.0.1", "-only",
		"packages", "-out", dir)
	if out, err := build.CombinedOutput(); err != nil {
		m.t.Fatalf("making the package: %v\n%s", err, out)
	}
	m.ok("dpkg", "--install", filepath.Join(dir, "porthole_0.0.1_amd64.deb"))
	if got := m.unit("kubelet", "LoadState", "UnitFileState", "ActiveState"); got != "loaded disabled inactive" {
		m.t.Errorf("after the installation the kubelet is %s", got)
	}
	m.joins(cp, "porthole", append(cp.joinLine(), "--patches", m.patches(), "--timeout", "3m"))
	if path := m.unit("kubelet", "FragmentPath"); path != "/usr/lib/systemd/system/kubelet.service" &&
		path != "/lib/systemd/system/kubelet.service" {
		m.t.Errorf("the unit of the kubelet is %s", path)
	}
	m.comesBack(cp)
	m.reboot()
	m.afterBoot(cp)
	m.leaves("porthole")
	m.ok("dpkg", "--remove", "porthole")
	if m.run("test", "-e", "/usr/bin/porthole").code == 0 {
		m.t.Error("the package's program is left")
	}
}

// joins makes the machine a node, and does it again, which changes nothing.
func (m *systemdMachine) joins(cp *machine, porthole string, line []string) {
	m.t.Helper()
	r := m.run(porthole, line...)
	m.t.Logf("%.1f s\n%s%s", r.took.Seconds(), r.out, r.err)
	if r.code != 0 || !strings.Contains(r.out, "node "+m.name+" is Ready") {
		m.t.Fatalf("code %d\n%s", r.code, m.journal())
	}
	for _, unit := range []string{"kubelet", "porthole-routes"} {
		if got := m.unit(unit, "LoadState", "UnitFileState", "ActiveState"); got != "loaded enabled active" {
			m.t.Errorf("%s is %s", unit, got)
		}
	}
	if env := m.run("bash", "-c",
		"tr '\\0' '\\n' < /proc/$(systemctl show --value -p MainPID kubelet)/environ").out; strings.Contains(
		strings.Join(line, " "), "GOMEMLIMIT") != strings.Contains(env, "GOMEMLIMIT=777MiB") {
		m.t.Errorf("the kubelet's environment is %s", env)
	}

	before := m.pids()
	if r = m.run(porthole, "join"); r.code != 0 || !strings.Contains(r.out, "nothing to do") {
		m.t.Errorf("again: code %d: %s%s", r.code, r.out, r.err)
	}
	m.t.Logf("again %.2f s", r.took.Seconds())
	if now := m.pids(); now != before {
		m.t.Errorf("a second join restarted units: %s, before %s", now, before)
	}
	cp.ready(m.name)
}

// runsPod: a pod has a slice of systemd and its limit, because the runtime has scopes, and both go with it.
func (m *systemdMachine) runsPod(cp *machine) {
	m.t.Helper()
	limited := fmt.Sprintf(
		`{"spec": {"nodeName": %q, "containers": [{"name": "pause", "image": %q, "resources": {"limits": {"cpu": "20m", "memory": "32Mi"}}}]}}`, m.name, pauseImage)
	cp.kubectl("run", "sliced", "--image", pauseImage, "--restart=Never", "--overrides", limited)
	wait.True(m.t, 2*time.Minute, "the pod to run", func() bool {
		return cp.kubectl("get", "pod", "sliced", "-o", "jsonpath={.status.phase}") == "Running"
	})
	kubepods := "porthole-" + m.name + "-kubepods"
	slice := kubepods + "-pod" +
		strings.ReplaceAll(cp.kubectl("get", "pod", "sliced", "-o", "jsonpath={.metadata.uid}"), "-", "_") + ".slice"

	if got := strings.TrimSpace(m.ok("systemctl", "show", slice, "--value", "-p",
		"ActiveState,CPUQuotaPerSecUSec")); got != "20ms\nactive" && got != "active\n20ms" {
		m.t.Errorf("the pod's slice is %q", got)
	}
	path := filepath.Join("porthole.slice", "porthole-"+m.name+".slice", kubepods+".slice", slice)
	limit := strings.TrimSpace(m.ok("bash", "-c",
		"cat /sys/fs/cgroup/memory/"+path+"/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/"+path+
			"/memory.max"))
	if limit != "33554432" {
		m.t.Errorf("the pod's limit of memory is %q", limit)
	}
	cp.kubectl("delete", "pod", "sliced")
	wait.True(m.t, time.Minute, "the units of the pod to be gone", func() bool {
		return strings.TrimSpace(m.ok("systemctl", "list-units", "--all", "--plain", "--no-legend", slice,
			"cri-containerd-*")) == ""
	})
}

func (m *systemdMachine) pids() string {
	m.t.Helper()
	return m.unit("kubelet", "MainPID") + " " + m.unit("porthole-routes", "MainPID")
}

// comesBack: systemd starts what was killed, and a join finds a stopped unit and starts it, and nothing else.
func (m *systemdMachine) comesBack(cp *machine) {
	m.t.Helper()
	before := m.pids()
	m.ok("systemctl", "kill", "--signal=SIGKILL", "kubelet", "porthole-routes")
	wait.True(m.t, time.Minute, "the units to run again", func() bool {
		now := strings.Fields(m.pids())
		old := strings.Fields(before)
		return now[0] != "0" && now[1] != "0" && now[0] != old[0] && now[1] != old[1] &&
			m.run("curl", "-fsS", "http://127.0.0.1:10248/healthz").code == 0
	})

	cp.ready(m.name)
	m.ok("systemctl", "disable", "--now", "porthole-routes")
	report, r := m.reportOf("join")
	var done []string
	for _, s := range report.Steps {
		if s.Result == "done" {
			done = append(done, s.ID)
		}
	}
	if r.code != 0 || strings.Join(done, " ") != "start/porthole-routes" ||
		m.unit("porthole-routes", "UnitFileState", "ActiveState") != "enabled active" {
		m.t.Errorf("after a unit was disabled: code %d, steps %v: %s%s, %+v", r.code, done, report.Error, r.err,
			report.Checks)
	}
	cp.ready(m.name)
}

// reportOf runs the installed program with -o json.
func (m *systemdMachine) reportOf(args ...string) (step.Report, result) {
	program := "/usr/bin/porthole"
	if m.run("test", "-e", program).code != 0 {
		program = "/usr/lib/porthole/porthole"
	}
	return m.reportBy(program, args...)
}

// exchanges upgrades the programs and goes back, by systemd.
func (m *systemdMachine) exchanges() {
	m.t.Helper()
	f := follower{m.machine}
	second := f.version("sd2", "")
	r := f.exchange(0, step.Upgraded, "upgrade", "--source", second)
	m.t.Logf("upgrade took %.1f s", r.Seconds)
	if got, want := f.runs(), "kubelet "+r.To+" routes "+r.To; got != want {
		m.t.Errorf("the processes are %q, want %q", got, want)
	}
	f.exchange(0, step.Upgraded, "rollback")
	r = f.exchange(0, step.Upgraded, "upgrade", "--source", second, "--force")
	bad := f.version("sd3", "#!/bin/sh\nexit 1\n")
	f.exchange(5, step.RolledBack, "upgrade", "--source", bad)
	if got, want := f.runs(), "kubelet "+r.To+" routes "+r.To; got != want {
		m.t.Errorf("after a version that does not run the processes are %q, want %q", got, want)
	}
}

// afterBoot: nobody typed anything in, and the node is Ready with another boot.
func (m *systemdMachine) afterBoot(cp *machine) {
	m.t.Helper()
	start := time.Now()
	wait.True(m.t, 2*time.Minute, "the node to be Ready in its second boot", func() bool {
		n := cp.node(m.name)
		return n != nil && strings.HasSuffix(n.Status.NodeInfo.BootID, "2") && isReady(n)
	})
	m.t.Logf("Ready %.1f s after the boot", time.Since(start).Seconds())
	if report, r := m.reportOf("join"); r.code != 0 || report.Outcome != step.Unchanged {
		m.t.Errorf("after a reboot a join: code %d, %s %s", r.code, report.Outcome, report.Error)
	}
}

// leaves takes all back: the units neither run nor start with the machine.
func (m *systemdMachine) leaves(porthole string) {
	m.t.Helper()
	r := m.run(porthole, "leave")
	m.t.Logf("%.1f s\n%s%s", r.took.Seconds(), r.out, r.err)
	if r.code != 0 || !strings.Contains(r.out, "nothing of Porthole is left") {
		m.t.Errorf("leave: code %d", r.code)
	}
	for _, unit := range []string{"kubelet", "porthole-routes"} {
		if got := m.unit(unit, "ActiveState", "UnitFileState"); got != "inactive" && got != "inactive disabled" {
			m.t.Errorf("after leave %s is %s", unit, got)
		}
	}
	if r = m.run(porthole, "leave"); r.code != 0 || !strings.Contains(r.out, "this machine is no node") {
		m.t.Errorf("twice: code %d: %s%s", r.code, r.out, r.err)
	}
}

// journal is the end of what the units logged.
func (m *systemdMachine) journal() string {
	return m.run("journalctl", "--no-pager", "-n", "60", "-u", "kubelet", "-u", "porthole-routes", "-u",
		"containerd").out + tail(m.log(fmt.Sprintf("holder%d", m.boots)))
}
