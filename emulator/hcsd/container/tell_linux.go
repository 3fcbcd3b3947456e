package container

import (
	"encoding/binary"
	"strconv"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/hcsd"
)

// tell writes a file for the launcher of program n, and has it read that.
func (r *Runtime) tell(key string, n int, launcher Process, what string, data []byte) error {
	folder, err := r.bundle(key).openRun()
	if err != nil {
		return err
	}
	defer folder.close()
	if err := folder.write(n, what, data); err != nil {
		return err
	}
	return launcher.Signal(unix.SIGINT)
}

// SendEvent has a program get a console event, by the number of the event.
func (r *Runtime) SendEvent(key string, n int, launcher Process, event int) error {
	return r.tell(key, n, launcher, "event", []byte(strconv.Itoa(event)))
}

// Resize gives the console of a program another size.
func (r *Runtime) Resize(key string, n int, launcher Process, size hcsd.ConsoleSize) error {
	return r.tell(key, n, launcher, "size", sizeText(size))
}

// sizeText is the size of a console as the launcher reads it, a COORD: width and height.
func sizeText(size hcsd.ConsoleSize) []byte {
	return binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, size.Width), size.Height)
}
