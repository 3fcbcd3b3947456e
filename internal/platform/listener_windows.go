package platform

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

var getExtendedTCPTable = windows.NewLazySystemDLL("iphlpapi.dll").NewProc("GetExtendedTcpTable")

// tcpRow is MIB_TCPROW_OWNER_PID (tcpmib.h). Ports are in network order, in the lower half.
type tcpRow struct{ State, LocalAddr, LocalPort, RemoteAddr, RemotePort, PID uint32 }

// tableListeners is TCP_TABLE_OWNER_PID_LISTENER (iprtrmib.h).
const tableListeners = 3

// ListenerOf returns the process that listens on a TCP port of IPv4.
func ListenerOf(port uint16) (pid uint32, err error) {
	table := make([]byte, 16<<10)
	for {
		size := uint32(len(table))
		code, _, _ := getExtendedTCPTable.Call(uintptr(unsafe.Pointer(&table[0])), uintptr(unsafe.Pointer(&size)), 0,
			windows.AF_INET, tableListeners, 0)
		if windows.Errno(code) == windows.ERROR_INSUFFICIENT_BUFFER && int(size) > len(table) {
			table = make([]byte, size)
			continue
		}
		if code != 0 {
			return 0, fmt.Errorf("listing TCP listeners: %w", windows.Errno(code))
		}
		break
	}

	count := *(*uint32)(unsafe.Pointer(&table[0]))
	rows := (len(table) - 4) / int(unsafe.Sizeof(tcpRow{}))
	for _, row := range unsafe.Slice((*tcpRow)(unsafe.Pointer(&table[4])), min(int(count), rows)) {
		if uint16(row.LocalPort)<<8|uint16(row.LocalPort)>>8 == port {
			return row.PID, nil
		}
	}
	return 0, errors.New("no process listens on the port")
}

// ProgramOf returns the full path of a process's program, "" if it cannot be read.
func ProgramOf(pid uint32) string {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return ""
	}
	defer func() { _ = windows.CloseHandle(h) }()
	path := make([]uint16, windows.MAX_LONG_PATH)
	size := uint32(len(path))
	if err := windows.QueryFullProcessImageName(h, 0, &path[0], &size); err != nil {
		return ""
	}
	return windows.UTF16ToString(path[:size])
}
