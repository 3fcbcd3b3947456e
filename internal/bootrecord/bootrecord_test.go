package bootrecord

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/bubble"
)

func write(t *testing.T, file string, r Record) {
	t.Helper()
	if err := Write(file, r); err != nil {
		t.Fatal(err)
	}
}

// A record is of one boot and one phase. The same again is not written, so that the time stays.
func TestWrite(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "made by Write", Network)
		if _, err := Read(file); !errors.Is(err, fs.ErrNotExist) || ReadyIn(file, "7") == "" {
			t.Errorf("no record: %v", err)
		}
		ready := Record{BootID: "7", Phase: Ready, PodCIDR: "10.244.1.0/24"}
		write(t, file, ready)
		before, err := Read(file)
		if err != nil {
			t.Fatal(err)
		}

		time.Sleep(time.Minute)
		write(t, file, ready)
		if r, err := Read(file); err != nil || r != before {
			t.Errorf("the same again: %+v, %v; want %+v", r, err, before)
		}
		if why := ReadyIn(file, "7"); why != "" {
			t.Errorf("this boot: %s", why)
		}
		if why := ReadyIn(file, "8"); !strings.Contains(why, "is of boot 7, this is boot 8") {
			t.Errorf("another boot: %q", why)
		}
		write(t, file, Record{BootID: "7", Phase: Waiting})
		if why := ReadyIn(file, "7"); !strings.Contains(why, `says "waiting"`) {
			t.Errorf("not made yet: %q", why)
		}
		if r, err := Read(file); err != nil || r.Since.Sub(before.Since) != time.Minute {
			t.Errorf("another phase: %+v, %v", r, err)
		}
	})
}

// The gate opens with the record of this boot, not with what an earlier one, a power failure or a half-made network
// left.
func TestGate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		file := filepath.Join(folder, Network)
		write(t, file, Record{BootID: "7", Phase: Ready})
		g, err := NewGate(file, "8")
		if err != nil {
			t.Fatal(err)
		}
		opened := make(chan struct{})
		go func() {
			if err := g.Run(t.Context(), func() { close(opened) }); err != nil {
				t.Error(err)
			}
		}()
		for _, text := range []string{`{"bootID":"7","phase":"ready"}`, "", `{"bootID":"8","phase":"waiting"}`,
			`{"bootID":"8","ph`} {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			bubble.Wait()
			select {
			case <-opened:
				t.Fatalf("%q has opened the gate", text)
			default:
			}
			if why := g.Why(); !strings.Contains(why,
				"the pod network of this boot is not made yet (porthole-routes)") {
				t.Errorf("%q: %q", text, why)
			}
		}
		if r, err := Read(filepath.Join(folder, Pods)); err != nil || r.BootID != "8" || r.Phase != Waiting {
			t.Errorf("pods: %+v, %v", r, err)
		}

		write(t, file, Record{BootID: "8", Phase: Ready})
		<-opened
		boot, err := ReadBoot(folder, "8")
		if err != nil || g.Why() != "" || boot.Pods.Phase != Ready || boot.Pods.Since.Before(boot.Network.Since) {
			t.Errorf("open: %q, %+v %+v, %v", g.Why(), boot.Network, boot.Pods, err)
		}
	})
}

// A restarted kubelet finds the gate open. Without a record nobody waits, and without a boot id nobody could.
func TestGateIsOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), Network)
	write(t, file, Record{BootID: "8", Phase: Ready})
	again, err := NewGate(file, "8")
	if err != nil || again.Why() != "" {
		t.Errorf("a restart: %v, %v", again, err)
	}
	none, err := NewGate("", "8")
	if err != nil || none.Why() != "" {
		t.Errorf("without a file: %v, %v", none, err)
	}
	for _, g := range []*Gate{again, none} {
		if err := g.Run(context.Background(), func() { t.Error("opened twice") }); err != nil {
			t.Error(err)
		}
	}
	if _, err := NewGate(file, ""); err == nil {
		t.Error("a gate of an unknown boot")
	}
}

func TestString(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, Network), Record{BootID: "8", Phase: Ready, PodCIDR: "10.244.1.0/24"})
	write(t, filepath.Join(folder, Services), Record{BootID: "7", Phase: Ready})
	boot, err := ReadBoot(folder, "8")
	if err != nil || boot.Empty() {
		t.Fatalf("%+v, %v", boot, err)
	}
	if got := boot.String(); !strings.HasPrefix(got, "boot 8: pod network 10.244.1.0/24 ready since 2") ||
		!strings.HasSuffix(got, ", services of boot 7, pods never ready") {
		t.Error(got)
	}

	if err := os.WriteFile(filepath.Join(folder, Pods), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if boot, err = ReadBoot(folder, ""); err == nil || boot.Network == nil {
		t.Errorf("a broken file: %+v, %v", boot, err)
	}
}
