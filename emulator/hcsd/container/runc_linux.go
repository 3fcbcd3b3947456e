package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/internal/slow"
)

// runc runs containers by the program of that name. Its state is in root.
type runc struct{ path, root string }

// runcLimit bounds one call of runc.
const runcLimit = time.Minute

// command runs runc and returns what it wrote to its output. files become the standard streams of what
// it starts; nil: it starts nothing.
func (r runc) command(ctx context.Context, files *[3]*os.File, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(runcLimit))
	defer cancel()
	log := filepath.Join(r.root, fmt.Sprintf("log-%d", logNumber.Add(1)))
	defer os.Remove(log)
	cmd := exec.CommandContext(ctx, r.path,
		append([]string{"--root", r.root, "--log", log, "--log-format", "text"}, args...)...)
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if files != nil {
		cmd.Stdin = files[0]
		cmd.Stdout = files[1]
		cmd.Stderr = files[2]
	}

	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(errs.String())
		if data, e := os.ReadFile(log); e == nil && text == "" {
			text = strings.TrimSpace(string(data))
		}
		return nil, fmt.Errorf("runc %s: %w: %s", args[0], err, text)
	}
	return out.Bytes(), nil
}

// removeLogs removes the logs of calls that ended with an earlier hcsd.
func removeLogs(root string) error {
	logs, err := filepath.Glob(filepath.Join(root, "log-*"))
	for _, log := range logs {
		err = errors.Join(err, os.Remove(log))
	}
	return err
}

// run makes and starts the container of a bundle, and returns its first process.
func (r runc) run(ctx context.Context, key, bundle string) (Process, error) {
	pidFile := filepath.Join(bundle, "pid")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return Process{}, err
	}
	defer null.Close()
	if _, err := r.command(ctx, &[3]*os.File{null, null, null}, "run", "--detach", "--pid-file", pidFile, "--bundle",
		bundle, key); err != nil {
		return Process{}, err
	}
	return readPid(pidFile)
}

// readPid reads the file that runc writes. A process that has ended has only its number.
func readPid(path string) (Process, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Process{}, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return Process{}, err
	}
	p, err := ProcessOf(pid)
	if errors.Is(err, os.ErrNotExist) {
		return Process{Pid: pid}, nil // it has ended
	}
	return p, err
}

// update changes a container's limits; resources are those of the runtime specification.
func (r runc) update(ctx context.Context, key string, resources any) error {
	data, err := json.Marshal(resources)
	if err != nil {
		return err
	}
	file := filepath.Join(r.root, key+".resources")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return err
	}
	defer os.Remove(file)
	_, err = r.command(ctx, nil, "update", "--resources", file, key)
	return err
}

// delete ends a container and all its programs. One that is not there is success.
func (r runc) delete(ctx context.Context, key string) error {
	if _, err := os.Stat(filepath.Join(r.root, key)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	_, err := r.command(ctx, nil, "delete", "--force", key)
	return err
}

// counters are what `runc events --stats` prints, in either version of cgroups.
type counters struct {
	Data struct {
		CPU struct {
			Usage struct{ Total, Kernel, User uint64 }
		}
		Memory struct {
			Usage struct{ Usage, Max uint64 }
			Raw   map[string]uint64
		}
		Blkio struct {
			Bytes []counter `json:"ioServiceBytesRecursive"`
			Count []counter `json:"ioServicedRecursive"`
		}
	}
}

// counter is one kind of operation of one disk.
type counter struct {
	Op    string
	Value uint64
}

// measure returns the processor time, memory and disk traffic of a container, as its cgroup counts them. key is its id
// in runc.
func (r runc) measure(ctx context.Context, key string) (hcsd.Measured, error) {
	out, err := r.command(ctx, nil, "events", "--stats", key)
	if err != nil {
		return hcsd.Measured{}, err
	}
	var c counters
	if err := json.Unmarshal(out, &c); err != nil {
		return hcsd.Measured{}, fmt.Errorf("reading runc's counters: %w", err)
	}

	d := c.Data
	droppable := max(d.Memory.Raw["total_inactive_file"], d.Memory.Raw["inactive_file"])
	return hcsd.Measured{
		ProcessorNanos: d.CPU.Usage.Total, UserNanos: d.CPU.Usage.User, KernelNanos: d.CPU.Usage.Kernel,
		MemoryBytes: d.Memory.Usage.Usage, PeakBytes: d.Memory.Usage.Max,
		PrivateBytes: d.Memory.Usage.Usage - min(droppable, d.Memory.Usage.Usage),
		ReadBytes:    sum(d.Blkio.Bytes, "read"), WriteBytes: sum(d.Blkio.Bytes, "write"),
		ReadCount: sum(d.Blkio.Count, "read"), WriteCount: sum(d.Blkio.Count, "write"),
	}, nil
}

// sum adds one kind of operation over all disks; its name is in any case.
func sum(list []counter, op string) (total uint64) {
	for _, c := range list {
		if strings.EqualFold(c.Op, op) {
			total += c.Value
		}
	}
	return total
}

// pids lists the processes of a container.
func (r runc) pids(ctx context.Context, key string) ([]int, error) {
	out, err := r.command(ctx, nil, "ps", "--format", "json", key)
	if err != nil {
		return nil, err
	}
	var list []int
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("reading runc's list of processes: %w", err)
	}
	return list, nil
}

// logNumber numbers runc's log files.
var logNumber atomic.Uint64
