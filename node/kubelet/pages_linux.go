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

// releaseProgram unmaps the pages of the program's own file. Most of the program's code runs only at the start, and
// with each page that is used the kernel maps up to 15 around it (fault_around_bytes, 64 KiB), so that nearly the
// whole file counts as memory of the process. The pages stay in the page cache: the kernel maps those that are used
// again from there, and may drop the others when memory is short.
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

// mapping is a range of addresses. to is the first address after it.
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

// unwritten returns the read-only mappings of a file in smaps in which no page was written (Anonymous is 0). A
// debugger writes its breakpoints into such a mapping; they would be lost with the page.
func unwritten(smaps *bufio.Scanner, path string) (list []mapping, err error) {
	var now mapping // the one that the current line belongs to; empty unless it is a read-only one of the file
	for smaps.Scan() {
		f := strings.Fields(smaps.Text())
		switch {
		case len(f) > 1 && strings.Contains(f[0],
			"-"): // from-to, permissions, offset, device, inode, and the path if there is a file
			now = mapping{}
			if len(f) < 6 || strings.Join(f[5:], " ") != path || strings.Contains(f[1], "w") {
				continue
			}
			if _, err := fmt.Sscanf(f[0], "%x-%x", &now.from, &now.to); err != nil {
				return nil, fmt.Errorf("%s: %w", smaps.Text(), err)
			}
		case len(f) > 1 && f[0] == "Anonymous:" && f[1] == "0" && now != mapping{}:
			list = append(list, now)
		}
	}
	return list, smaps.Err()
}
