package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/slow"
)

// programCalls answers the calls about processes.
type programCalls struct{ *Service }

// createProcess starts a program. The pid that it answers is that of the program's launcher on this machine, so that
// it is the same in no other system.
func (s programCalls) createProcess(ctx context.Context, c call) (result, error) {
	var doc hcsd.Process
	if err := hcsd.Decode(c.document(), &doc); err != nil {
		return result{}, err
	}
	if err := doc.Check(); err != nil {
		return result{}, err
	}
	if !guest.KnownUser(doc.User) {
		return result{}, hcsd.ErrLogonFailure
	}
	s.mu.Lock()
	sys, live, err := s.get(c)
	if err == nil {
		err = sys.Running()
	}
	if err != nil {
		s.mu.Unlock()
		return result{}, err
	}
	init := *live.Init
	s.mu.Unlock()

	// of two that begin at once the second would wait for the first one's event: emulator/dll/launch.c
	live.launching <- struct{}{}
	defer func() { <-live.launching }()
	p, err := s.launch(ctx, sys, live, init, doc)
	if err != nil {
		return result{}, err
	}
	p.io.own(c.process) // it gets the streams
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := sys.Running(); err != nil {
		p.io.close()
		return result{}, err
	}
	pid := uint32(p.Process.Pid)
	live.Programs[pid] = p
	sys.AddProcess(pid, doc, now())
	s.hold(c, pid)
	go s.watchProgram(ctx, live, p)
	return result{text: p.io.numbers(), handle: uint64(pid)}, s.save()
}

// launch starts the launcher of a program and returns when the program runs, or with Windows' error for its start:
// then nothing of it is left.
func (s programCalls) launch(ctx context.Context, sys *hcsd.System, c *container, init process,
	doc hcsd.Process) (_ *program, err error) {
	s.mu.Lock()
	c.Last++
	n := c.Last
	hostname := ""
	if sys.Doc.Container.GuestOs != nil {
		hostname = sys.Doc.Container.GuestOs.HostName
	}
	s.mu.Unlock()
	if doc.WorkingDirectory == "" {
		doc.WorkingDirectory = `C:\`
	}

	dir := s.o.systemDir(c.key)
	folder, err := s.o.openRun(c.key)
	if err != nil {
		return nil, err
	}
	defer folder.close()
	var io *streams
	defer func() {
		if err != nil {
			io.close()
			s.o.removeProgramFiles(c.key, n)
		}
	}()
	if err := s.o.begin(c.key, n); err != nil {
		return nil, err
	}
	if err := writeStart(folder, n, doc, hostname); err != nil {
		return nil, err
	}
	var theirs [3]*os.File
	if io, theirs, err = makeStreams(dir, n, doc); err != nil {
		return nil, err
	}
	defer closeFiles(theirs)

	spec := s.o.linuxProcess(s.o.Tools.Argv(guest.Launcher, "/run", strconv.Itoa(n)), guest.DriveC)
	first, err := s.rt.enter(c.key, init, spec, theirs)
	if err != nil {
		return nil, err
	}
	if err := folder.write(n, "line", launchText(doc)); err != nil { // the launcher waits for it
		return nil, errors.Join(err, first.signal(unix.SIGKILL))
	}
	p := &program{Number: n, Process: first, io: io}
	if doc.EmulateConsole {
		io.interrupt = func() error { return s.tellLauncher(c.key, p, "typed", []byte{interruption}) }
	}
	if err := s.untilStarted(ctx, p, folder); err != nil {
		return nil, err
	}
	return p, nil
}

// writeStart writes what the launcher of program n reads before it starts the program: the size of its console, if it
// has one, and its environment.
func writeStart(folder runFolder, n int, doc hcsd.Process, hostname string) error {
	if size, ok := doc.Console(); ok {
		if err := folder.write(n, "console", sizeText(size)); err != nil {
			return err
		}
	}
	return folder.write(n, "env", environmentText(environmentOf(doc, hostname)))
}

// untilStarted waits until the launcher has written whether the program runs: 0, or the Windows error of its start. A
// launcher that writes nothing in time is killed, because nobody would know of its program.
func (s programCalls) untilStarted(ctx context.Context, p *program, folder runFolder) error {
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(programWait))
	defer cancel()
	said := ""
	err := poll(ctx, every, func() bool {
		gone := !p.Process.alive() // before the look at the file, which the launcher writes while it lives
		said = folder.read(p.Number, "started")
		return strings.HasSuffix(said, "\n") || gone
	})
	if err != nil {
		return errors.Join(fmt.Errorf("waiting for a program to be loaded: %w", err), p.Process.signal(unix.SIGKILL))
	}

	code, err := strconv.ParseUint(strings.TrimSpace(said), 10, 32)
	if err != nil {
		return hcsd.ErrFailed.WithText("the launcher of the program ended without a word: %q", said)
	}
	if code == 0 {
		return nil
	}
	text := ""
	for _, known := range []*hcsd.Error{hcsd.ErrFileNotFound, hcsd.ErrPathNotFound, hcsd.ErrAccessDenied,
		hcsd.ErrDirectoryName} {
		if known.Code == hcsd.Win32(uint32(code)).Code {
			text = known.Text
		}
	}
	return hcsd.Win32(uint32(code)).WithText("%s", text)
}

// launchText is what the launcher reads: the program, or nothing for the first word of the command line, the command
// line and the folder, each of UTF-16 and ended by a zero.
func launchText(doc hcsd.Process) []byte {
	line := doc.CommandLine
	if line == "" {
		line = `"` + doc.ApplicationName + `"`
	}
	return utf16Texts(doc.ApplicationName, line, doc.WorkingDirectory)
}

// utf16Texts are texts in UTF-16, each ended by a zero.
func utf16Texts(texts ...string) (out []byte) {
	for _, text := range texts {
		for _, u := range utf16.Encode([]rune(text + "\x00")) {
			out = binary.LittleEndian.AppendUint16(out, u)
		}
	}
	return out
}

// environmentOf are the variables of a program that are not those of every program: what a container adds to them, and
// over that what was asked for. Names differ by more than their case; of several the last one in the order of the
// document counts.
func environmentOf(doc hcsd.Process, hostname string) []guest.Variable {
	user := doc.User
	if user == "" {
		user = "ContainerAdministrator"
	}
	if i := strings.LastIndex(user, `\`); i >= 0 {
		user = user[i+1:]
	}
	env := []guest.Variable{{Name: "USERNAME", Value: user}}
	if hostname != "" {
		env = append(env, guest.Variable{Name: "COMPUTERNAME", Value: guest.ComputerName(hostname)})
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Environment)) {
		env = append(env, guest.Variable{Name: name, Value: doc.Environment[name]})
	}
	if sid, ok := guest.UserSID(doc.User); ok {
		env = append(env, guest.Variable{Name: sidVariable, Value: sid})
	}
	return env
}

// sidVariable says whose a program is (emulator/dll/mend_user.c). Programs do not see it.
const sidVariable = "WINEUSERSID"

// environmentText is what the launcher reads of a program's variables. The later of two of one name wins there.
func environmentText(env []guest.Variable) []byte {
	var texts []string
	for _, v := range env {
		texts = append(texts, v.Name+"="+v.Value)
	}
	return utf16Texts(append(texts, "")...)
}

// watchProgram waits until a program has ended.
func (s programCalls) watchProgram(ctx context.Context, c *container, p *program) {
	if err := p.Process.wait(ctx); err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Watching a program", "system", c.id, "pid", p.Process.Pid)
		}
		return
	}
	code, told := uint32(killed), false
	if folder, err := s.o.openRun(c.key); err == nil {
		if code, told = folder.exitCode(p.Number); !told {
			code = killed
		}
		folder.close()
	}
	kills := memoryKills(c.Init.Pid)

	s.mu.Lock()
	defer s.mu.Unlock()
	sys, pid := s.systems[c.id], uint32(p.Process.Pid)
	if sys == nil || s.live[c.id] != c {
		return
	}
	if (code <= ofKilled || !told) && kills > c.kills {
		code = noMemory // the kernel may choose its launcher too, which then tells nothing
	}
	c.kills = max(c.kills, kills)
	s.tell(sys.EndProcess(pid, code))
	if p.handles <= 0 && c.Programs[pid] == p {
		s.forgetProgram(c, sys, pid)
	}
	if err := s.save(); err != nil {
		klog.FromContext(ctx).Error(err, "A program has ended", "system", c.id, "pid", pid)
	}
}

// process finds the process of a call; under mu.
func (s programCalls) process(c call) (*hcsd.Started, *program, error) {
	sys, live, err := s.get(c)
	if err != nil {
		return nil, nil, err
	}
	rec, err := sys.Process(c.pid())
	if err != nil {
		return nil, nil, err
	}
	return rec, live.Programs[c.pid()], nil
}

func (s programCalls) openProcess(_ context.Context, c call) (result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sys, _, err := s.get(c)
	if err != nil {
		return result{}, err
	}
	if _, err := sys.OpenProcess(c.pid()); err != nil {
		return result{}, err
	}
	s.hold(c, c.pid())
	return result{handle: uint64(c.pid())}, nil
}

// terminateProcess ends the launcher, with which the program ends.
func (s programCalls) terminateProcess(_ context.Context, c call) (result, error) {
	return result{}, s.signalTo(c, unix.SIGKILL, nil)
}

func (s programCalls) signalProcess(_ context.Context, c call) (result, error) {
	var signal hcsd.Signal
	if err := hcsd.Decode(c.document(), &signal); err != nil {
		return result{}, err
	}
	event, err := signal.Event()
	if err != nil {
		return result{}, err
	}
	return result{}, s.signalTo(c, unix.SIGINT, &event)
}

// signalTo sends a signal to the launcher, which reads there which console event it passes on.
func (s programCalls) signalTo(c call, sig unix.Signal, event *int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, p, err := s.process(c)
	if err != nil {
		return err
	}
	if rec.Exited {
		return hcsd.ErrProcessStopped
	}
	if event != nil {
		return s.tellLauncher(s.live[c.subject()].key, p, "event", []byte(strconv.Itoa(*event)))
	}
	return p.Process.signal(sig)
}

// tellLauncher writes a file for the launcher of a program, and has it read that.
func (s programCalls) tellLauncher(key string, p *program, what string, data []byte) error {
	folder, err := s.o.openRun(key)
	if err != nil {
		return err
	}
	defer folder.close()
	if err := folder.write(p.Number, what, data); err != nil {
		return err
	}
	return p.Process.signal(unix.SIGINT)
}

// sizeText is the size of a console as the launcher reads it, a COORD: width and height.
func sizeText(size hcsd.ConsoleSize) []byte {
	return binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, size.Width), size.Height)
}

// resize has the launcher give the console of a program another size; under mu.
func (s programCalls) resize(c call, p *program, size hcsd.ConsoleSize) error {
	if err := size.Check(); err != nil {
		return err
	}
	return s.tellLauncher(s.live[c.subject()].key, p, "size", sizeText(size))
}

func (s programCalls) modifyProcess(_ context.Context, c call) (result, error) {
	var change hcsd.ProcessChange
	if err := hcsd.Decode(c.document(), &change); err != nil {
		return result{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, p, err := s.process(c)
	if err != nil {
		return result{}, err
	}
	if rec.Exited {
		return result{}, hcsd.ErrProcessStopped
	}
	if change.Operation == "ConsoleSize" && change.ConsoleSize != nil && rec.Doc.EmulateConsole {
		return result{}, s.resize(c, p, *change.ConsoleSize)
	}
	if change.Operation != "CloseHandle" || change.CloseHandle == nil || change.CloseHandle.Handle != "StdIn" {
		return result{}, hcsd.ErrNotSupported.WithText("operation %q on a process", change.Operation)
	}
	if p.io.closeInput(c.process) {
		return result{handle: wire.HCSDrain}, nil
	}
	return result{}, nil
}

func (s programCalls) processProperties(_ context.Context, c call) (result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, _, err := s.process(c)
	if err != nil {
		return result{}, err
	}
	return result{text: rec.Status()}, nil
}

// programOf describes a process of a container. ok is false for one that has ended, and for those of the emulation
// itself.
func programOf(pid int) (p hcsd.Program, ok bool) {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return p, false
	}
	p = hcsd.Program{Pid: uint32(pid), Image: strings.TrimSpace(string(comm))}
	if strings.HasPrefix(p.Image, "wineserver") || strings.HasPrefix(p.Image, "porthole-launch") ||
		strings.HasPrefix(p.Image, "porthole-pipe") {
		return p, false
	}
	if statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)); err == nil {
		if f := strings.Fields(string(statm)); len(f) > 1 {
			pages, _ := strconv.ParseUint(f[1], 10, 64) // the kernel writes numbers
			p.MemoryBytes = pages * uint64(os.Getpagesize())
		}
	}
	if info, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
		p.Begun = info.ModTime()
	}
	return p, true
}
