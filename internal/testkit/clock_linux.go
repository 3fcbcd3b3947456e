package testkit

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// vdsoStub replaces a function of the vDSO that tells the time of day. It calls the kernel, and then adds the four
// zeros at seconds.
type vdsoStub struct {
	symbol  string
	code    []byte
	seconds int
}

// vdsoStubs are the functions that programs ask: Go and most others the first, wineserver the second.
var vdsoStubs = []vdsoStub{
	{"__vdso_clock_gettime", []byte{
		0xb8, 0xe4, 0, 0, 0, // mov eax, 228 (clock_gettime)
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi (CLOCK_REALTIME)
		0x74, 0x05, // jz to the add
		0x83, 0xff, 0x05, // cmp edi, 5 (CLOCK_REALTIME_COARSE)
		0x75, 0x07, // jnz to the ret
		0x48, 0x81, 0x06, 0, 0, 0, 0, // add qword [rsi], seconds
		0xc3, // ret
	}, 19},
	{"__vdso_gettimeofday", []byte{
		0xb8, 0x60, 0, 0, 0, // mov eax, 96 (gettimeofday)
		0x0f, 0x05, // syscall
		0x48, 0x85, 0xff, // test rdi, rdi
		0x74, 0x07, // jz to the ret
		0x48, 0x81, 0x07, 0, 0, 0, 0, // add qword [rdi], seconds
		0xc3, // ret
	}, 15},
}

const pageSize = 4096

// ShiftClock adds offset, which may be negative, to the time of day that a process sees; zero undoes it. Timers are
// not affected, as when somebody sets a machine's clock. It works for programs that use the vDSO, as Go programs do.
// Windows programs under Wine read the time of day from a page that wineserver writes: the clock of an emulated host
// is that of its wineserver. The error is errors.ErrUnsupported if this machine's vDSO cannot be changed.
func ShiftClock(pid int, offset time.Duration) error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("shifting clocks on %s: %w", runtime.GOARCH, errors.ErrUnsupported)
	}
	if err := shifted(pid).shift(int32(offset / time.Second)); err != nil {
		return fmt.Errorf("shifting the clock of process %d: %w", pid, err)
	}
	return nil
}

// ShiftClock is ShiftClock for this process.
func (p *Process) ShiftClock(offset time.Duration) error { return ShiftClock(p.PID(), offset) }

// shifted is the id of a process whose clock is shifted.
type shifted int

// shift changes the vDSO that the kernel has mapped into the process: the entry of each function jumps to a stub
// behind the code, which adds the seconds. The process is stopped while a jump is written, so that it never executes
// half of it. Writing the stub alone is enough if the jump is there already.
func (p shifted) shift(seconds int32) error {
	start, size, err := p.vdso()
	if err != nil {
		return err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", p), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	image := make([]byte, size)
	if _, err := mem.ReadAt(image, start); err != nil {
		return err
	}

	at := size // stubs are at the end, in the order of the list
	for _, stub := range vdsoStubs {
		at -= len(stub.code)
		entry, err := entryOf(image, stub.symbol)
		if err != nil {
			return err
		}
		code := slices.Clone(stub.code)
		binary.LittleEndian.PutUint32(code[stub.seconds:], uint32(seconds))
		room := image[at : at+len(code)] // the rest of the last page, behind the image, is empty
		if bytes.Equal(room[:stub.seconds], code[:stub.seconds]) {
			if _, err := mem.WriteAt(code, start+int64(at)); err != nil {
				return err
			}
			continue
		}
		if slices.ContainsFunc(room, func(b byte) bool { return b != 0 }) {
			return fmt.Errorf("the vDSO has no room at its end: %w", errors.ErrUnsupported)
		}

		jump := binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(at-(entry+5)))
		err = p.stopped(start+int64(entry), func() error {
			_, err := mem.WriteAt(code, start+int64(at))
			if err == nil {
				_, err = mem.WriteAt(jump, start+int64(entry))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// vdso returns where the vDSO is mapped in the process.
func (p shifted) vdso() (start int64, size int, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		var end int64
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			_, err := fmt.Sscanf(line, "%x-%x", &start, &end)
			return start, int(end - start), err
		}
	}
	return 0, 0, errors.New("it has no vDSO")
}

// entryOf returns the address of a function.
func entryOf(image []byte, symbol string) (int, error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		if s.Name == symbol {
			return int(s.Value), nil
		}
	}
	return 0, fmt.Errorf("the vDSO has no %s: %w", symbol, errors.ErrUnsupported)
}

// stopped calls change while all threads of the process are stopped and none is in the page of that address.
func (p shifted) stopped(address int64, change func() error) error {
	page := address / pageSize
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if err := unix.Kill(int(p), syscall.SIGSTOP); err != nil {
			return err
		}
		inside, err := p.threadsIn(page, deadline)
		if err == nil && !inside {
			err = change()
		}
		if e := unix.Kill(int(p), syscall.SIGCONT); err != nil || e != nil || !inside {
			return errors.Join(err, e)
		}
	}
	return errors.New("its threads are never elsewhere")
}

// threadsIn waits until each thread of a process that was told to stop has done so, which takes a while on a busy
// machine, and reports whether one is in a page, or still runs at the deadline.
func (p shifted) threadsIn(page int64, deadline time.Time) (bool, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", p))
	for _, file := range tasks {
		fields := callOf(file)
		for ; len(fields) < 3; fields = callOf(file) {
			if _, gone := os.Stat(file); gone != nil {
				break
			}
			if time.Now().After(deadline) {
				return true, nil
			}
			runtime.Gosched()
		}
		if len(fields) < 3 {
			continue // the thread has ended
		}

		at, parseErr := strconv.ParseInt(strings.TrimPrefix(fields[len(fields)-1], "0x"), 16, 64)
		if parseErr != nil {
			return true, parseErr
		}
		if at/pageSize == page {
			return true, nil
		}
	}
	return false, err
}

// callOf returns what the kernel says of a thread that does not run: the call, and where the thread is. It says
// "running" of others.
func callOf(file string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}
