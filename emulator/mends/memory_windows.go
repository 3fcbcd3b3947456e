package main

import (
	"errors"
	"fmt"
	"os"
	"unsafe"
)

// memory gives the host a memory of its own, as hcsd does, and takes it away again. The functions answer so at once:
// GlobalMemoryStatusEx of Wine keeps an answer for a second, so that it is asked once.
func memory() error {
	const whole, committed, file = 3 << 30, 1 << 30, `C:\System Volume Information\porthole-memory`
	before, err := commit()
	if err != nil {
		return err
	}
	err = errors.Join(os.MkdirAll(`C:\System Volume Information`, 0o755),
		os.WriteFile(file, fmt.Appendf(nil, "%020d %020d\n", whole, committed), 0o644))
	if err != nil {
		return err
	}
	defer os.Remove(file)

	// The structure is MEMORYSTATUSEX, sizes in bytes.
	type status struct {
		length, load                                                     uint32
		totalPhys, availPhys, totalPage, availPage, totalVirtual, availV uint64
		availExtended                                                    uint64
	}
	m := status{length: uint32(unsafe.Sizeof(status{}))}
	if ok, _, err := kernel.NewProc("GlobalMemoryStatusEx").Call(uintptr(unsafe.Pointer(&m))); ok == 0 {
		return err
	}
	if m.totalPhys != whole || m.availPhys != whole-committed || m.totalPage != whole ||
		m.availPage != whole-committed {
		return fmt.Errorf("GlobalMemoryStatusEx: %+v", m)
	}
	var kib uint64
	if ok, _, err := kernel.NewProc("GetPhysicallyInstalledSystemMemory").
		Call(uintptr(unsafe.Pointer(&kib))); ok == 0 || kib != whole>>10 {
		return fmt.Errorf("GetPhysicallyInstalledSystemMemory: %d KiB, %v", kib, err)
	}
	if now, err := commit(); err != nil || now != (limits{whole, committed, whole}) {
		return fmt.Errorf("GetPerformanceInfo: %+v, %v", now, err)
	}

	if err := os.Remove(file); err != nil {
		return err
	}
	if now, err := commit(); err != nil || now.limit != before.limit || now.whole != before.whole {
		return fmt.Errorf("GetPerformanceInfo without a memory of its own: %+v, %v; before %+v", now, err, before)
	}
	return nil
}

// limits are in bytes.
type limits struct{ limit, committed, whole uint64 }

// commit reads the figures of GetPerformanceInfo, in bytes: Windows gives them in pages.
func commit() (limits, error) {
	var p struct {
		size                                                   uint32
		commitTotal, commitLimit, commitPeak                   uintptr
		physicalTotal, physicalAvailable, systemCache          uintptr
		kernelTotal, kernelPaged, kernelNonpaged, bytesPerPage uintptr
		handles, processes, threads                            uint32
	}
	p.size = uint32(unsafe.Sizeof(p))
	if ok, _, err := kernel.NewProc("K32GetPerformanceInfo").
		Call(uintptr(unsafe.Pointer(&p)), unsafe.Sizeof(p)); ok == 0 {
		return limits{}, err
	}
	page := uint64(p.bytesPerPage)
	return limits{uint64(p.commitLimit) * page, uint64(p.commitTotal) * page, uint64(p.physicalTotal) * page}, nil
}
