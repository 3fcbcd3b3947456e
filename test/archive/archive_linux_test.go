package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/archive"
)

const (
	// target is what unpacking and `porthole up` may take on two processors that do nothing else (issue 14).
	target = 60 * time.Second
	// limit is for a machine that does much else.
	limit = 9 * time.Minute
)

// unpacked makes the archive from what is built, and unpacks it with tar into a folder of its own.
func unpacked(t *testing.T) (dir string, took time.Duration) {
	t.Helper()
	if os.Getenv("PORTHOLE_ARCHIVE") == "" {
		t.Skip("packs and unpacks 450 MB, and brings a cluster up: `make test-archive`")
	}
	if os.Geteuid() != 0 {
		t.Fatal("making namespaces and mounts needs root")
	}
	base, err := os.MkdirTemp("/var/tmp", "porthole-archive-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	dir, took, err = archive.Unpack("../..", base)
	if err != nil {
		t.Fatal(err)
	}
	return dir, took
}

// goFolders are those that hold Go and what it built or downloaded on this machine.
func goFolders(t *testing.T) (list []string) {
	t.Helper()
	for _, name := range []string{"GOROOT", "GOCACHE", "GOMODCACHE", "GOPATH"} {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		if dir := strings.TrimSpace(string(out)); dir != "" {
			if _, err := os.Stat(dir); err == nil {
				list = append(list, dir)
			}
		}
	}
	return list
}

// without runs a command in a mount namespace in which folders are empty, and no program called go is on the search
// path.
func without(ctx context.Context, hidden []string, dir, command string) *exec.Cmd {
	script := "set -e\n"
	for _, h := range hidden {
		script += fmt.Sprintf("[ ! -d %q ] || mount -t tmpfs none %[1]q\n", h)
	}
	script += "for d in ${PATH//:/ }; do [ ! -e $d/go ] || mount --bind /dev/null $d/go 2>/dev/null || ! $d/go version >/dev/null 2>&1; done\n" +
		"if go version 2>/dev/null; then echo 'Go is still there'; exit 9; fi\n" + command
	c := exec.CommandContext(ctx, "unshare", "-m", "--propagation", "slave", "bash", "-c", script)
	c.Dir, c.WaitDelay = dir, time.Second
	return c
}

// TestWithoutGo brings the cluster up by the archive's program where Go is nowhere, as on a machine of somebody who
// only wants to try it.
func TestWithoutGo(t *testing.T) {
	dir, unpacking := unpacked(t)
	state := filepath.Join(filepath.Dir(dir), "state")
	hidden := goFolders(t)
	run := func(command string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		out, err := without(ctx, hidden, dir, command).CombinedOutput()
		return string(out), err
	}
	if out, err := run("sha256sum --quiet -c SHA256SUMS"); err != nil {
		t.Errorf("the sums of the archive: %v\n%s", err, out)
	}

	defer func() {
		if out, err := run("./porthole down --purge --dir " + state); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	}()
	start := time.Now()
	out, err := run("./porthole up --dir " + state)
	if err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	took := unpacking + time.Since(start)
	t.Logf("unpacked in %.1f s, up after %.1f s, load %s\n%s", unpacking.Seconds(), took.Seconds(), load(), out)
	if took > target {
		t.Logf("longer than the %s that an idle machine of two processors may take", target)
	}
	if nodes, err := run("./porthole kubectl --dir " + state + " get nodes"); err != nil ||
		strings.Count(nodes, " Ready ") != 3 {
		t.Errorf("%v: the nodes are\n%s", err, nodes)
	}
}

func load() string {
	text, _ := os.ReadFile("/proc/loadavg") // for the log only
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// TestPrivileged runs the archive's program in a container of runc that has what `docker run --privileged` gives: all
// capabilities, all devices, /sys and cgroups that can be written, and namespaces of its own for network, mounts,
// names, processes and IPC. Its files are those of different distributions, as small as they come: nothing but a
// kernel, and the archive, is needed.
func TestPrivileged(t *testing.T) {
	dir, unpacking := unpacked(t)
	t.Logf("unpacked in %.1f s", unpacking.Seconds())
	for _, r := range archive.Roots {
		t.Run(r.Name, func(t *testing.T) { upAndDown(t, dir, r) })
	}
}

// upAndDown brings a cluster up and down in a container with a root file system.
func upAndDown(t *testing.T, dir string, r archive.Root) {
	bundle, err := os.MkdirTemp(filepath.Dir(dir), "bundle-")
	must(t, err)
	files := filepath.Join(bundle, "rootfs")
	must(t, os.Mkdir(files, 0o755))
	must(t, r.Make(files))
	must(t, os.WriteFile(filepath.Join(bundle, "config.json"), privileged(t, dir, bundle), 0o644))

	runc, err := filepath.Abs("../../bin/bundle/runc")
	must(t, err)
	id := fmt.Sprintf("porthole-archive-%d-%s", os.Getpid(), r.Name)
	t.Cleanup(func() { _ = exec.Command(runc, "delete", "--force", id).Run() })
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	start := time.Now()
	c := exec.CommandContext(ctx, runc, "run", "--bundle", bundle, id)
	var out bytes.Buffer
	c.Stdout, c.Stderr, c.WaitDelay = &out, &out, time.Second
	err = c.Run()
	t.Logf("%.1f s, load %s\n%s", time.Since(start).Seconds(), load(), out.String())
	if err != nil || strings.Count(out.String(), " Ready ") != 3 ||
		!strings.Contains(out.String(), "the cluster is gone") {
		t.Errorf("in the container: %v", err)
	}
}

// inContainer is what the container does.
const inContainer = `set -e
cd /porthole
./porthole up || { find /var/lib/porthole/hosts -name '*.log' -exec tail -n 5 {} +; exit 1; }
./porthole kubectl get nodes
./porthole down
echo the cluster is gone`

// privileged returns the container's configuration, which is what Docker makes of --privileged (moby,
// daemon/oci_linux.go and oci/caps).
func privileged(t *testing.T, archive, bundle string) []byte {
	t.Helper()
	runc, err := filepath.Abs("../../bin/bundle/runc")
	must(t, err)
	spec := exec.Command(runc, "spec")
	spec.Dir = t.TempDir()
	if out, err := spec.CombinedOutput(); err != nil {
		t.Fatalf("runc spec: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(spec.Dir, "config.json"))
	must(t, err)
	var c map[string]any
	must(t, json.Unmarshal(text, &c))

	type object = map[string]any
	process, linux := c["process"].(object), c["linux"].(object)
	process["terminal"], process["args"], process["noNewPrivileges"] = false, []string{"/bin/sh", "-c",
		inContainer}, false
	process["env"] = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	delete(process, "rlimits")
	var capabilities []string
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, after, _ := strings.Cut(string(status), "CapEff:")
	ours, err := strconv.ParseUint(strings.Fields(after)[0], 16, 64)
	must(t, err)
	for bit, name := range strings.Fields(capabilityNames) {
		if ours&(1<<bit) != 0 { // nobody can give what he does not have
			capabilities = append(capabilities, "CAP_"+strings.ToUpper(name))
		}
	}
	process["capabilities"] = object{"bounding": capabilities, "effective": capabilities, "permitted": capabilities,
		"inheritable": capabilities}
	c["root"] = object{"path": "rootfs", "readonly": false}
	c["hostname"] = "porthole"

	linux["resources"] = object{"devices": []object{{"allow": true, "access": "rwm"}}}
	delete(linux, "maskedPaths")
	delete(linux, "readonlyPaths")
	list := []object{}
	for _, m := range c["mounts"].([]any) {
		mount := m.(object)
		options := []string{}
		given, _ := mount["options"].([]any) // none: the mount has none
		for _, o := range given {
			if o != "ro" && !(mount["destination"] == "/dev" && strings.HasPrefix(fmt.Sprint(o), "size=")) {
				options = append(options, fmt.Sprint(o))
			}
		}
		mount["options"] = options
		list = append(list, mount)
	}
	// Docker gives a folder of the host's disk to what an image calls a volume: overlays cannot lie on each other
	// everywhere.
	state := filepath.Join(bundle, "volume")
	must(t, os.MkdirAll(state, 0o755))
	list = append(list, object{"destination": "/var/lib/porthole", "type": "bind", "source": state,
		"options": []string{"rbind", "rw"}},
		object{"destination": "/run", "type": "tmpfs", "source": "tmpfs", "options": []string{"mode=755"}},
		object{"destination": "/porthole", "type": "bind", "source": archive, "options": []string{"rbind", "ro"}})
	c["mounts"] = list
	text, err = json.Marshal(c)
	must(t, err)
	return text
}

// capabilityNames are all of Linux 6 in the order of their numbers (capabilities(7)).
const capabilityNames = `chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service net_broadcast net_admin
	net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct sys_admin sys_boot sys_nice sys_resource sys_time sys_tty_config mknod
	lease audit_write audit_control setfcap mac_override mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore`

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
