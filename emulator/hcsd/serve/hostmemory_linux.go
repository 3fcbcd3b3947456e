package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/hcsd/container"
)

// A host with a memory of its own (Options.Memory) shows its programs that much, and what it has committed:
// emulator/dll/mend_memory.c reads both in memoryFile. What is committed is the anonymous memory of the host's
// processes and of its containers, so what they have written to: Windows counts what was promised to them. Nothing is
// refused when all is used.

const (
	// memoryFile is below C:, two numbers of bytes: what the host has, and what is committed.
	memoryFile = "System Volume Information/porthole-memory"
	// memoryEvery is between two looks: programs see no value that is older (GlobalMemoryStatusEx of Wine 8.0 keeps
	// its own for as long).
	memoryEvery = time.Second
)

// keepMemory keeps memoryFile until ctx ends. A host without a memory of its own has no such file.
func (o Options) keepMemory(ctx context.Context) error {
	c, err := o.host().OpenC()
	if err != nil {
		return err
	}
	defer c.Close()
	if o.Memory == 0 {
		if err := c.Remove(memoryFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("giving the host the machine's memory: %w", err)
		}
		return nil
	}
	err = c.MkdirAll(filepath.Dir(memoryFile), 0o755)
	if err == nil {
		err = o.writeMemory(os.O_CREATE)
	}
	if err != nil {
		return fmt.Errorf("giving the host %d bytes of memory: %w", o.Memory, err)
	}

	go func() {
		tick := time.NewTicker(memoryEvery)
		defer tick.Stop()
		for ctx.Err() == nil {
			if err := o.writeMemory(0); err != nil {
				klog.FromContext(ctx).Error(err, "Measuring the memory of the host")
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	return nil
}

// writeMemory writes the file in one call: its length never changes, so that a reader sees one value or the next. flag
// is for opening it.
func (o Options) writeMemory(flag int) error {
	committed, err := o.committed()
	if err != nil {
		return err
	}
	c, err := o.host().OpenC()
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := c.OpenFile(memoryFile, flag|os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%020d %020d\n", o.Memory, committed)
	return errors.Join(err, f.Close())
}

// committed is the anonymous memory of the processes in the host's network namespace, which is this one's, and of its
// containers.
func (o Options) committed() (uint64, error) {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return 0, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	var sum uint64
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		if ns, err := os.Readlink(filepath.Join("/proc", e.Name(), "ns/net")); err == nil && ns == own {
			sum += anonymous(filepath.Join("/proc", e.Name(), "status"))
		}
	}
	return sum + o.containersMemory(), nil
}

// anonymous is RssAnon of a process' status; 0 for one that has ended, and for those of the kernel.
func anonymous(status string) uint64 {
	data, err := os.ReadFile(status)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "RssAnon:" {
			n, _ := strconv.ParseUint(f[1], 10, 64) // the kernel writes numbers
			return n << 10
		}
	}
	return 0
}

// containersMemory is the anonymous memory of all containers of the host, by their cgroup in either version; 0 before
// the first one.
func (o Options) containersMemory() uint64 {
	for _, c := range []struct{ root, counter string }{{"/sys/fs/cgroup/memory", "total_rss"},
		{"/sys/fs/cgroup", "anon"}} {
		if n, ok := container.ReadCounter(filepath.Join(c.root, o.cgroup(), "memory.stat"), c.counter); ok {
			return n
		}
	}
	return 0
}
