package bgp

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/windows"
)

// mutex is a mutex of the host by its handle.
type mutex windows.Handle

func (m mutex) Close() error { return windows.CloseHandle(windows.Handle(m)) }

// alone returns an error if another agent of this host speaks BGP. Otherwise no other one will until what it returns
// is closed, or this process ends.
func alone() (io.Closer, error) {
	name, err := windows.UTF16PtrFromString(`Global\porthole-bgp`)
	if err != nil {
		return nil, err
	}

	handle, err := windows.CreateMutex(nil, false, name)
	if errors.Is(err, windows.ERROR_ALREADY_EXISTS) || errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		if handle != 0 {
			windows.CloseHandle(handle)
		}
		return nil, errOther
	}
	if err != nil {
		return nil, fmt.Errorf("looking for another agent: %w", err)
	}
	return mutex(handle), nil
}
