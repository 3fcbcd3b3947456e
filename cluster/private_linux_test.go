package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/credentials"
	"porthole.dev/porthole/cluster/install"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/platform"
)

// TestStateIsPrivate: whatever the umask is, nobody but root comes to what a cluster keeps: each folder and file of it
// is closed itself, or lies in a folder that is. So it is in a state folder that was open before.
func TestStateIsPrivate(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, l layout.Layout){
		"new": func(*testing.T, layout.Layout) {},
		"open before": func(t *testing.T, l layout.Layout) {
			for _, dir := range []string{"hosts/win01", "hosts/lin01/kubelet", "run", "logs", "pki", "cache/images"} {
				if err := os.MkdirAll(filepath.Join(l.Dir, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {

		for _, mask := range []int{0, 0o022, 0o077} {
			t.Run(name, func(t *testing.T) {
				outer := t.TempDir()
				if err := os.Chmod(outer, 0o755); err != nil {
					t.Fatal(err)
				}
				old := unix.Umask(mask)
				defer unix.Umask(old)
				l := layout.Layout{Dir: filepath.Join(outer, "state"), Bin: t.TempDir()}
				before(t, l)
				writeState(t, l)
				for _, path := range reachable(t, l.Dir) {
					if path == l.Dir && name == "open before" {
						continue // it may be the caller's folder: the names in it can be listed
					}
					t.Errorf("umask %03o: everybody reads %s", mask, strings.TrimPrefix(path, l.Dir))
				}
			})
		}
	}
}

// writeState makes what `up` makes without a network.
func writeState(t *testing.T, l layout.Layout) {
	t.Helper()
	c := config.Default()
	unlock, err := lock(l)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := makeFolders(l, c); err != nil {
		t.Fatal(err)
	}
	if err := config.Write(l, c); err != nil {
		t.Fatal(err)
	}
	if err := credentials.Ensure(l, c); err != nil {
		t.Fatal(err)
	}

	hosts := host.Store{Dir: l.Dir}
	for _, n := range c.Nodes() {
		if err := hosts.Describe(c.Host(l, n)); err != nil {
			t.Fatal(err)
		}
		err := os.MkdirAll(l.NodeFile(n.Name, "kubelet", "pods", "uid"), 0o755)
		if err == nil {
			err = os.WriteFile(l.NodeFile(n.Name, "kubelet", "pods", "uid", "token"), []byte("secret"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := install.File(l.Log("etcd"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// reachable returns the files and the folders below dir that somebody who owns nothing of it can read or list.
func reachable(t *testing.T, dir string) (found []string) {
	t.Helper()
	st, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if st.Mode().Perm()&0o044 != 0 {
		found = append(found, dir)
	}

	others := os.FileMode(0o011)
	if st.Sys().(*syscall.Stat_t).Gid == wine.Owner { // the user of emulated hosts, whom everybody else is not
		others = 0o001
	}
	if !st.IsDir() || st.Mode().Perm()&others == 0 {
		return found
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			found = append(found, reachable(t, filepath.Join(dir, e.Name()))...)
		}
	}
	return found
}

// TestWindowsHostsAreClosed: only root reads the folder of a Windows host, and only the user of emulated hosts can
// pass through it. All can pass through that of a Linux node, for pods with a user namespace of their own.
func TestWindowsHostsAreClosed(t *testing.T) {
	const ofWindows = os.FileMode(0o710)
	l := layout.Layout{Dir: filepath.Join(t.TempDir(), "state"), Bin: t.TempDir()}
	writeState(t, l)
	for name, want := range map[string]os.FileMode{"win01": ofWindows, "lin01": platform.PassThrough} {
		if st, err := os.Stat(l.Host(name)); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s has %v, %v; want %v", name, st.Mode(), err, want)
		}
	}
	s := host.Store{Dir: l.Dir}
	if err := s.Describe(host.Host{Name: "h1", OS: "windows"}); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(s.Folder("h1"))
	if err != nil || st.Mode().Perm() != ofWindows {
		t.Fatalf("h1 has %v, %v", st, err)
	}
	if owner := st.Sys().(*syscall.Stat_t); owner.Uid != 0 || owner.Gid != wine.Owner {
		t.Errorf("h1 belongs to %d and the group %d", owner.Uid, owner.Gid)
	}
}
