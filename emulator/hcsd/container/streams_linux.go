package container

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/wire"
)

// The names of a program's standard streams, by number.
var streamNames = [3]string{"in", "out", "err"}

// Streams are our ends of a program's standard streams: pipes with names, so that the next hcsd finds them.
type Streams struct {
	mu    sync.Mutex
	ours  [3]*os.File // nil: there is none
	owner uint64      // process of the caller that has the input; 0: none has it

	interrupt func() error // types an interruption on the program's console; nil: it has none
}

// keyboard is the input of a console. An interruption does not go to its terminal, which is Wine's conhost.exe and
// would end (emulator/dll/launch.c).
type keyboard struct {
	terminal  io.Writer
	interrupt func() error
}

// interruption is what a terminal sends for Ctrl+C.
const interruption = 3

// Write passes on what is typed. Each interruption is a signal, not a byte, and what is before it
// goes first.
func (k keyboard) Write(data []byte) (n int, err error) {
	for len(data) > 0 {
		at := bytes.IndexByte(data, interruption)
		if at == 0 {
			if err := k.interrupt(); err != nil {
				return n, err
			}
			n, data = n+1, data[1:]
			continue
		}
		if at < 0 {
			at = len(data)
		}

		wrote, err := k.terminal.Write(data[:at])
		n += wrote
		if err != nil {
			return n, err
		}
		data = data[at:]
	}
	return n, nil
}

// input is what the caller's input is written to.
func (s *Streams) input(file *os.File) io.Writer {
	if s.interrupt == nil {
		return file
	}
	return keyboard{file, s.interrupt}
}

// makeStreams makes the pipes that a program was made with. theirs are the program's ends, which the caller closes; a
// stream without a pipe is the null device. The program holds both ends of its output, so that it is not ended by that
// of hcsd; and of the input of a console that nobody types on, because the end of its input is the end of a console.
func makeStreams(dir string, n int, doc hcsd.Process) (s *Streams, theirs [3]*os.File, err error) {
	s = &Streams{}
	wanted := [3]bool{doc.CreateStdInPipe, doc.CreateStdOutPipe, doc.CreateStdErrPipe && !doc.EmulateConsole}
	defer func() {
		if err != nil {
			s.Close()
			closeFiles(theirs)
		}
	}()
	for i, name := range streamNames {
		silent := i == 0 && doc.EmulateConsole && !wanted[0]
		if !wanted[i] && !silent {
			if theirs[i], err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
				return s, theirs, err
			}
			continue
		}

		path := streamPath(dir, n, name)
		if err = unix.Mkfifo(path, 0o600); err != nil {
			return s, theirs, fmt.Errorf("making the pipe %s: %w", path, err)
		}
		ours, its := os.O_RDONLY, os.O_RDWR
		if i == 0 && !silent {
			ours, its = os.O_WRONLY, os.O_RDONLY
		}

		// The end that need not wait for the other comes first.
		if theirs[i], err = openPipe(path, its); err != nil {
			return s, theirs, err
		}
		if err = unix.SetNonblock(int(theirs[i].Fd()), false); err != nil {
			return s, theirs, err
		}
		if silent {
			continue
		}
		if s.ours[i], err = openPipe(path, ours); err != nil {
			return s, theirs, err
		}
	}
	return s, theirs, nil
}

// reopenStreams opens the pipes of a program that an earlier hcsd made. Its input was closed with that one.
func reopenStreams(dir string, n int) *Streams {
	s := &Streams{}
	for i, name := range streamNames[1:] {
		if f, err := openPipe(streamPath(dir, n, name), os.O_RDONLY); err == nil {
			s.ours[i+1] = f
		}
	}
	return s
}

func streamPath(dir string, n int, name string) string {
	return filepath.Join(dir, "run", strconv.Itoa(n)+"."+name)
}

// openPipe opens one end of a pipe without waiting for the other.
func openPipe(path string, mode int) (*os.File, error) {
	f, err := os.OpenFile(path, mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the pipe of a program: %w", err)
	}
	return f, nil
}

// closeFiles passes over streams that are not there.
func closeFiles(files [3]*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// Numbers has a digit for each stream that there is.
func (s *Streams) Numbers() (digits string) {
	for i, f := range s.ours {
		if f != nil {
			digits += strconv.Itoa(i)
		}
	}
	return digits
}

// Close closes our ends. A nil receiver has none.
func (s *Streams) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	closeFiles(s.ours)
	s.ours = [3]*os.File{}
}

// get returns our end of stream 0, 1 or 2, which stays ours. One that was not asked for or is closed is no handle.
func (s *Streams) get(i int) (*os.File, error) {
	if s == nil {
		return nil, hcsd.ErrInvalidHandle
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ours[i] == nil {
		return nil, hcsd.ErrInvalidHandle
	}
	return s.ours[i], nil
}

// CloseInput ends the program's input. If the caller has it, drain is true: it ends it itself when everything is sent.
func (s *Streams) CloseInput(caller uint64) (drain bool) {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ours[0] == nil {
		return false
	}
	if s.owner == caller {
		return true
	}
	s.ours[0].Close()
	s.ours[0] = nil
	return false
}

func (s *Streams) Own(caller uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owner = caller
}

// Carry makes a connection the standard stream of that number, until either side ends it. A nil receiver has none.
// An error has not been answered yet.
func (s *Streams) Carry(ctx context.Context, number int, c Caller) error {
	file, err := s.get(number)
	if err != nil {
		return err
	}
	if _, err := c.Conn.Write(wire.Answer{}.Frame()); err != nil {
		return nil // the caller has gone
	}
	stop := context.AfterFunc(ctx, func() { _ = file.SetDeadline(time.Unix(1, 0)) }) // one that is closed needs none
	defer stop()
	if number == 0 {
		s.Own(c.Process)
		receiveInput(c.Reader, s.input(file))
		s.Own(0)
		s.CloseInput(1)
		return nil
	}
	sendOutput(ctx, c.Conn, file)
	return nil
}

// Caller is who reads or writes a stream.
type Caller struct {
	Conn    net.Conn
	Reader  *bufio.Reader // of Conn
	Process uint64        // of the host
}

const piece = 32 << 10 // bytes of a stream that are sent at once

// sendOutput sends what a program writes until its last handle is closed. After the caller has gone the rest is read
// and dropped, so that the program does not wait for ever.
func sendOutput(ctx context.Context, conn net.Conn, file *os.File) {
	var failed error
	buffer := make([]byte, 4+piece)
	for ctx.Err() == nil {
		n, err := file.Read(buffer[4:])
		if n > 0 && failed == nil {
			binary.LittleEndian.PutUint32(buffer, uint32(n))
			_, failed = conn.Write(buffer[:4+n])
		}
		if err != nil {
			break
		}
	}
	if failed == nil && ctx.Err() == nil {
		_, _ = conn.Write(make([]byte, 4)) // the connection ends in any case
	}
}

// receiveInput gives a program what its caller sends, until the caller or the program ends it.
func receiveInput(r *bufio.Reader, file io.Writer) {
	for {
		var size uint32
		if err := binary.Read(r, binary.LittleEndian, &size); err != nil || size == 0 || size > wire.MaxFrame {
			return
		}
		if _, err := io.CopyN(file, r, int64(size)); err != nil {
			if errors.Is(err, unix.EPIPE) {
				_, _ = io.Copy(io.Discard, r) // as a pipe that nobody reads any more: the caller is not held up
			}
			return
		}
	}
}
