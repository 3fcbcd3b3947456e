package platform

import (
	"encoding/binary"
	"fmt"
)

// processorTimesSize is the size of SYSTEM_PROCESSOR_PERFORMANCE_INFORMATION in bytes, the same on 32-bit and 64-bit
// Windows (winternl.h).
const processorTimesSize = 48

// busyTime returns how long all processors of a Windows machine together have been busy since it started, in units of
// 100 ns. read returns the records of the processors of one group, one after the other, as NtQuerySystemInformationEx
// does for the class SystemProcessorPerformanceInformation. If a group cannot be read, busyTime returns an error,
// because a sum without that group would be smaller than an earlier one.
func busyTime(groups int, read func(group uint16) ([]byte, error)) (uint64, error) {
	busy := uint64(0)
	for group := range groups {
		data, err := read(uint16(group))
		if err != nil {
			return 0, fmt.Errorf("reading the processors of group %d: %w", group, err)
		}
		if len(data) == 0 || len(data)%processorTimesSize != 0 {
			return 0, fmt.Errorf("reading the processors of group %d: %d bytes are no records of %d", group, len(data),
				processorTimesSize)
		}
		for ; len(data) > 0; data = data[processorTimesSize:] {
			idle := binary.LittleEndian.Uint64(data)
			kernel := binary.LittleEndian.Uint64(data[8:])
			user := binary.LittleEndian.Uint64(data[16:])
			if all := kernel + user; all > idle { // kernel time includes idle time
				busy += all - idle
			}
		}
	}
	return busy, nil
}
