package wine

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/testkit/wait"
)

const mapsFile = "PORTHOLE_TEST_MAPS"

// TestMain is also the program that has a file in memory, as programs have the wineserver's.
func TestMain(m *testing.M) {
	if path := os.Getenv(mapsFile); path != "" {
		f, err := os.Open(path)
		if err == nil {
			_, err = unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ, unix.MAP_SHARED)
		}
		if err != nil {
			panic(err)
		}
		if err := os.Remove(path); err != nil { // as the wineserver does
			panic(err)
		}
		time.Sleep(time.Minute)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestEndAll: a program of the prefix ends, and one of another mount of it, which its wineserver's memory tells. Those
// of other prefixes go on.
func TestEndAll(t *testing.T) {
	dir := t.TempDir()
	p := Prefix{Dir: filepath.Join(dir, "prefix")}
	other := Prefix{Dir: filepath.Join(dir, "prefix2")}
	for _, d := range []string{p.Dir, other.Dir} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	start := func(env, program string, args ...string) (*exec.Cmd, chan error) {
		cmd := exec.Command(program, args...)
		cmd.Env = []string{env}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // most have ended
		return cmd, ended
	}
	mapped := func(of Prefix) (*exec.Cmd, chan error) {
		folder, err := of.serverFolder()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, folder, "tmpmap-1")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd, ended := start(mapsFile+"="+path, os.Args[0])
		wait.True(t, 10*time.Second, "the program has the file in memory",
			func() bool { _, err := os.Stat(path); return err != nil })
		return cmd, ended
	}

	_, own := start("WINEPREFIX="+p.Dir, "/bin/sleep", "60")
	_, silo := mapped(p)
	otherOwn, _ := start("WINEPREFIX="+other.Dir, "/bin/sleep", "60")
	otherMapped, _ := mapped(other)
	if err := p.EndAll(10 * time.Second); err != nil {
		t.Fatal(err)
	}

	for name, ended := range map[string]chan error{"program": own, "program of another mount": silo} {
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Errorf("the %s goes on", name)
		}
	}
	left, err := other.served()
	slices.Sort(left)
	want := []int{otherOwn.Process.Pid, otherMapped.Process.Pid}
	slices.Sort(want)
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("of the other prefix %v run, want %v: %v", left, want, err)
	}
	if err := syscall.Kill(otherOwn.Process.Pid, 0); err != nil {
		t.Error(err)
	}
}
