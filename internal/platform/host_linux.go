package platform

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ReadHost reads the facts of this machine. DiskBytes is the size of the file system that holds folder.
func ReadHost(folder string) (Host, error) {
	h := Host{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: int64(runtime.NumCPU())}
	h.Hostname, _ = os.Hostname()
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return h, fmt.Errorf("reading the size of memory: %w", err)
	}
	h.MemoryBytes = int64(info.Totalram) * int64(info.Unit)
	h.SwapBytes = int64(info.Totalswap) * int64(info.Unit)

	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return h, fmt.Errorf("reading the size of the disk of %s: %w", folder, err)
	}
	h.DiskBytes = int64(fs.Blocks) * fs.Bsize
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		h.KernelVersion = unix.ByteSliceToString(u.Release[:])
	}
	read := func(paths ...string) string {
		for _, p := range paths {
			if b, err := os.ReadFile(p); err == nil && len(strings.TrimSpace(string(b))) > 0 {
				return strings.TrimSpace(string(b))
			}
		}
		return ""
	}

	h.HugePages = hugePages("/sys/kernel/mm/hugepages")
	h.AppArmor = strings.HasPrefix(read("/sys/module/apparmor/parameters/enabled"), "Y")
	h.MachineID = read("/etc/machine-id", "/var/lib/dbus/machine-id")
	h.SystemUUID = read("/sys/class/dmi/id/product_uuid", "/etc/machine-id")
	h.BootID = BootID()

	for _, line := range strings.Split(read("/etc/os-release"), "\n") {
		if v, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			h.OSImage = strings.Trim(v, `"`)
		}
	}

	return h, nil
}

// BootID returns a text that differs from one boot of this machine to the next; "" if it is not known.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// hugePages returns how many bytes are in huge pages, by page size. The kernel has a folder hugepages-<KiB>kB per size.
func hugePages(dir string) map[int64]int64 {
	out := map[int64]int64{}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), "hugepages-")
		size, err := strconv.ParseInt(strings.TrimSuffix(text, "kB"), 10, 64)
		if !ok || err != nil || size <= 0 {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name(), "nr_hugepages"))
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil {
			out[size<<10] = n * size << 10
		}
	}
	return out
}

// IsWindows reports whether this program runs on Windows.
const IsWindows = false
