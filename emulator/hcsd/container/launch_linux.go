package container

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
	"time"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/internal/slow"
)

// programWait is how long a program may take to be loaded.
const programWait = 60 * time.Second

// Launch is what a program is started with.
type Launch struct {
	Key      string
	Number   int     // names the program's files; one that no other program of the container has had
	Init     Process // the container's first
	Hostname string  // that the container was given; "" for none
	Doc      hcsd.Process
}

// Launch starts the launcher of a program and returns when the program runs, or with Windows' error for its start: then
// nothing of it is left. The caller closes the streams.
func (r *Runtime) Launch(ctx context.Context, o Launch) (_ Process, _ *Streams, err error) {
	if o.Doc.WorkingDirectory == "" {
		o.Doc.WorkingDirectory = `C:\`
	}
	b, n := r.bundle(o.Key), o.Number
	folder, err := b.openRun()
	if err != nil {
		return Process{}, nil, err
	}
	defer folder.close()
	var io *Streams
	defer func() {
		if err != nil {
			io.Close()
			b.removeProgram(n)
		}
	}()
	if err := b.begin(n); err != nil {
		return Process{}, nil, err
	}
	if err := writeStart(folder, n, o.Doc, o.Hostname); err != nil {
		return Process{}, nil, err
	}
	var theirs [3]*os.File
	if io, theirs, err = makeStreams(b.dir, n, o.Doc); err != nil {
		return Process{}, nil, err
	}
	defer closeFiles(theirs)

	spec := r.linuxProcess(r.o.Tools.Argv(guest.Launcher, "/run", strconv.Itoa(n)), guest.DriveC)
	first, err := r.runc.enter(o.Key, o.Init, spec, theirs)
	if err != nil {
		return Process{}, nil, err
	}
	if err := folder.write(n, "line", launchText(o.Doc)); err != nil { // the launcher waits for it
		return Process{}, nil, errors.Join(err, first.Signal(unix.SIGKILL))
	}
	if o.Doc.EmulateConsole {
		io.interrupt = func() error { return r.tell(o.Key, n, first, "typed", []byte{interruption}) }
	}
	if err := untilStarted(ctx, n, first, folder); err != nil {
		return Process{}, nil, err
	}
	return first, io, nil
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
func untilStarted(ctx context.Context, n int, first Process, folder runFolder) error {
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(programWait))
	defer cancel()
	said := ""
	err := poll(ctx, every, func() bool {
		gone := !first.Alive() // before the look at the file, which the launcher writes while it lives
		said = folder.read(n, "started")
		return strings.HasSuffix(said, "\n") || gone
	})
	if err != nil {
		return errors.Join(fmt.Errorf("waiting for a program to be loaded: %w", err), first.Signal(unix.SIGKILL))
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
