package kubelet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// releaseProgram tells the kernel that the process does not need the pages of its program's file now. Most of the program is needed at its
// start only, and with each page the kernel maps the 15 around it (fault_around_bytes, 64 KiB), so that nearly the whole file counts as
// memory in use. Afterwards the kernel may drop what is not used again. What is used again it maps from its cache.
func releaseProgram() {
	path, err := os.Readlink("/proc/self/exe")
	var pages []mapping
	if err == nil {
		pages, err = programPages(path)
	}
	for _, p := range pages {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, p.from, p.to-p.from, unix.MADV_DONTNEED); errno != 0 {
			err = errors.Join(err, errno)
		}
	}
	if err != nil {
		klog.FromContext(context.Background()).V(2).Info("Kept pages of the program's file", "err", err)
	}
}

// mapping is where memory begins, and the address after it.
type mapping struct{ from, to uintptr }

// programPages lists where this process has mapped the file for reading.
func programPages(path string) ([]mapping, error) {
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil, err
	}
	defer smaps.Close()
	return unwritten(bufio.NewScanner(smaps), path)
}

// unwritten reads from smaps where a file is mapped that cannot be written to, and was not all the same, as by a debugger: such pages are
// copies, which would be lost.
func unwritten(smaps *bufio.Scanner, path string) (list []mapping, err error) {
	var now mapping // that the lines are about; empty if it is of no interest
	for smaps.Scan() {
		f := strings.Fields(smaps.Text())
		switch {
		case len(f) > 5 && strings.Contains(f[0], "-"): // from-to, permissions, offset, device, inode, path
			now = mapping{}
			if strings.Join(f[5:], " ") != path || strings.Contains(f[1], "w") {
				continue
			}
			if _, err := fmt.Sscanf(f[0], "%x-%x", &now.from, &now.to); err != nil {
				return nil, fmt.Errorf("%s: %w", smaps.Text(), err)
			}
		case len(f) > 1 && strings.Contains(f[0], "-"): // one without a file
			now = mapping{}
		case len(f) > 1 && f[0] == "Anonymous:" && f[1] == "0" && now != mapping{}:
			list = append(list, now)
		}
	}
	return list, smaps.Err()
}
