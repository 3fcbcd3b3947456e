package cgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The limits that a resize changes one by one.
const (
	ofMemory = iota
	ofQuota
	ofShares
)

// none stands for no limit, so that limits compare as numbers.
const none = math.MaxInt64

// knob is one setting of a cgroup.
type knob struct {
	file string
	// read turns the text in the file into a number that grows with what it allows, print turns it back.
	read  func(text string) (int64, error)
	print func(int64) string
}

// resize is Tree.Resize for the cgroup at path. tell, if it is not nil, is told each new limit before it is written.
func resize(path string, l limits, change func() error, tell func(which int, value int64) error) error {
	memory, quota, shares := knobs(path, l.per())
	type step struct {
		knob
		which      int
		have, want int64
	}
	set := func(s step) error {
		if tell != nil {
			if err := tell(s.which, s.want); err != nil {
				return err
			}
		}
		return write(s.file, s.print(s.want))
	}
	var steps []step
	for _, s := range []step{{knob: memory, which: ofMemory, want: orNone(l.memory)},
		{knob: quota, which: ofQuota, want: orNone(l.quota)},
		{knob: shares, which: ofShares, want: max(l.shares, minShares)}} {
		text, err := os.ReadFile(s.file)
		if err != nil {
			return fmt.Errorf("reading a limit of the pod: %w", err)
		}
		if s.have, err = s.read(strings.TrimSpace(string(text))); err != nil {
			return fmt.Errorf("reading %s: %w", s.file, err)
		}
		steps = append(steps, s)
	}

	if s := steps[0]; s.want < s.have {
		if err := checkUsage(path, s.want); err != nil {
			return err
		}
	}

	for _, s := range steps { // limits before requests
		if s.want > s.have {
			if err := set(s); err != nil {
				return err
			}
		}
	}

	if err := change(); err != nil {
		return err
	}

	var errs []error
	for i := len(steps) - 1; i >= 0; i-- { // requests before limits
		if s := steps[i]; s.want < s.have && s.print(s.want) != s.print(s.have) {
			errs = append(errs, set(s))
		}
	}
	return errors.Join(errs...)
}

func orNone(limit int64) int64 {
	if limit == 0 {
		return none
	}
	return limit
}

// knobs returns the settings of the cgroup at path, which exists; period is that of its quota.
func knobs(path string, period int64) (memory, quota, shares knob) {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	if !unified() {
		limit := func(n int64) string {
			if n == none {
				return "-1"
			}
			return number(n)
		}
		return knob{filepath.Join(mountPoint, "memory", path, "memory.limit_in_bytes"), readLimit, limit},
			knob{filepath.Join(mountPoint, "cpu", path, "cpu.cfs_quota_us"), readLimit, limit},
			knob{filepath.Join(mountPoint, "cpu", path, "cpu.shares"), readLimit, number}
	}

	limit := func(n int64) string {
		if n == none {
			return "max"
		}
		return number(n)
	}
	dir := filepath.Join(mountPoint, path)
	return knob{filepath.Join(dir, "memory.max"), readLimit, limit},
		knob{filepath.Join(dir, "cpu.max"), readLimit, func(n int64) string { return limit(n) + " " + number(period) }},
		knob{filepath.Join(dir, "cpu.weight"), readWeight, func(n int64) string { return number(weight(n)) }}
}

// readLimit reads the first number of a limit. The kernel shows no limit as -1, as "max", or as more memory than there
// can be.
func readLimit(text string) (int64, error) {
	first, _, _ := strings.Cut(text, " ")
	if first == "max" {
		return none, nil
	}
	n, err := strconv.ParseInt(first, 10, 64)
	if err == nil && (n < 0 || n > 1<<60) {
		return none, nil
	}
	return n, err
}

// readWeight returns the smallest number of shares that has the weight in text.
func readWeight(text string) (int64, error) {
	w, err := strconv.ParseInt(text, 10, 64)
	return minShares + ((w-1)*262142+9998)/9999, err
}

// weight returns the cpu.weight of cgroup v2 (1 to 10000) for cpu.shares (2 to 262144), as the kubelet of Kubernetes
// 1.36.3 does for pods and their classes. runc has another formula for containers since 1.3.2 (its issue 4896), where
// 1024 shares are 100 and not 39.
func weight(shares int64) int64 { return 1 + (shares-minShares)*9999/262142 }

// fits returns an error if memory is less than what the cgroup at path, which there may be, has in use, and the kernel
// would end processes to make it fit, as it does with cgroup v2. That of v1 refuses such a limit itself.
func fits(path string, memory int64) error {
	if _, err := os.Stat(filepath.Join(mountPoint, path)); memory == 0 || !unified() || err != nil {
		return nil
	}
	return checkUsage(path, memory)
}

// checkUsage fails, in upstream's words, if the cgroup uses at least limit bytes of memory.
func checkUsage(path string, limit int64) error {
	file := filepath.Join(mountPoint, path, "memory.current")
	if !unified() {
		file = filepath.Join(mountPoint, "memory", path, "memory.usage_in_bytes")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the memory that the pod uses: %w", err)
	}
	used, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	if used >= limit {
		return fmt.Errorf(
			"cannot decrease memory limits: attempting to set pod memory limit (%d) below current usage (%d)", limit,
			used)
	}
	return nil
}
