// Command mends does what Wine does otherwise than Windows and our DLLs mend. For each name in its arguments, or for
// all, it prints "ok NAME" or "NAME: why not". `porthole check --host` runs it with a mend left out, to see what the
// mend is for.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// checks are run by name: TestPrefix/mends of emulator/wine has a subtest for each.
// docs/windows-facts.md has what each of them shows.
var checks = []struct {
	name string
	do   func() error
}{
	{"pipe", pipe}, {"remove", remove}, {"rename", rename}, {"slashes", slashes}, {"volume", volume},
	{"mount-point", mountPoint}, {"bindings", bindings}, {"console", console}, {"job", job}, {"backup", backup},
	{"links", links}, {"link-names", linkNames}, {"link-roots", linkRoots}, {"version", version},
	{"registry", currentVersion}, {"texts", texts}, {"service", service}, {"no-service", service},
	{"unix-sockets", unixSockets}, {"counters", counters}, {"memory", memory}, {"users", users},
	{"host-name", hostName}, {"owners", owners}, {"sleeps", sleeps}, {"desktop", desktop},
	{"user-programs", userPrograms},
	{"environment", environment}, {"elevated", elevated}, {"standard-pipe", standardPipe}, {"attributes", attributes},
	{"working-set", workingSet}, {"stacks", stacks}, {"routes", routes}, {"unmended", unmended},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "who" {
		who()
		return
	}
	failed := 0
	for _, c := range checks {
		if len(os.Args) > 1 && !slices.Contains(os.Args[1:], c.name) {
			continue
		}
		if err := c.do(); err != nil {
			fmt.Printf("%s: %v\n", c.name, err)
			failed++
			continue
		}
		fmt.Println("ok", c.name)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

// slashes: a path without a drive is on the current one, whichever slash it begins with.
func slashes() error {
	for path, want := range map[string]string{
		"/var/log": `C:\var\log`, `\var\log`: `C:\var\log`, "/": `C:\`, "//server/share/x": `\\server\share\x`,
		"/windows/../a b/": `C:\a b`,
	} {
		if got, err := filepath.Abs(path); err != nil || got != want {
			return fmt.Errorf("%s is %s, %v, want %s", path, got, err, want)
		}
	}
	if err := os.MkdirAll("/of-mends/deeper", 0o755); err != nil {
		return err
	}
	if st, err := os.Stat(`C:\of-mends\deeper`); err != nil || !st.IsDir() {
		return fmt.Errorf("a folder with slashes is not on C: %v", err)
	}
	return os.RemoveAll("/of-mends")
}

// pipe sends bytes to and fro through a listener of go-winio, whose first client is the one that Wine loses.
func pipe() error {
	const name = `\\.\pipe\porthole-mends`
	l, err := winio.ListenPipe(name, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()

	for range 3 {
		limit := 3 * time.Second
		c, err := winio.DialPipe(name, &limit)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
		answer := make([]byte, 5)
		if _, err := c.Write([]byte("hello")); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "hello" {
			return fmt.Errorf("got %q, %v", answer, err)
		}
	}
	return nil
}

// remove removes a tree with a file that is read-only and one that is open in a way that allows it.
func remove() error {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	deep := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"plain", "read-only"} {
		if err := os.WriteFile(filepath.Join(deep, name), nil, 0o644); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(deep, "read-only"), 0o444); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("after RemoveAll: %v", err)
	}
	return nil
}

// rename renames over a file as os.Root.Rename does on Windows.
func rename() error {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	from := filepath.Join(dir, "from")
	to := filepath.Join(dir, "to")
	for _, name := range []string{from, to} {
		if err := os.WriteFile(name, []byte(filepath.Base(name)), 0o644); err != nil {
			return err
		}
	}
	f, err := open(from, windows.DELETE|windows.SYNCHRONIZE)
	if err != nil {
		return err
	}

	var info struct { // FILE_RENAME_INFORMATION_EX
		flags, _ uint32
		root     windows.Handle
		length   uint32
		name     [260]uint16
	}
	name, err := windows.UTF16FromString(`\??\` + to)
	if err != nil {
		return err
	}
	const renameInformationEx = 65 // FILE_INFORMATION_CLASS
	info.flags = windows.FILE_RENAME_REPLACE_IF_EXISTS | windows.FILE_RENAME_POSIX_SEMANTICS
	info.length = uint32(2 * (len(name) - 1))
	copy(info.name[:], name)
	err = windows.NtSetInformationFile(f, &windows.IO_STATUS_BLOCK{}, (*byte)(unsafe.Pointer(&info)),
		uint32(unsafe.Sizeof(info)), renameInformationEx)
	if err := errors.Join(err, windows.CloseHandle(f)); err != nil {
		return err
	}

	if data, err := os.ReadFile(to); err != nil || string(data) != "from" {
		return fmt.Errorf("the new name has %q, %v", data, err)
	}
	return nil
}

// open opens files and folders alike, without locking others out.
func open(path string, access uint32) (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	return windows.CreateFile(name, access, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE,
		nil,
		windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
}

// volume opens files by the paths that Windows itself gives, as containerd does for each mount.
func volume() error {
	file := filepath.Join(os.Getenv("SystemRoot"), "volume.txt")
	if err := os.WriteFile(file, []byte("content"), 0o644); err != nil {
		return err
	}
	h, err := open(file, windows.GENERIC_READ)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	const volumeNameGUID = 1 // VOLUME_NAME_GUID
	buffer := make([]uint16, 1024)
	n, err := windows.GetFinalPathNameByHandle(h, &buffer[0], uint32(len(buffer)), volumeNameGUID)
	if err != nil {
		return err
	}
	path := windows.UTF16ToString(buffer[:n])
	if !strings.HasPrefix(path, `\\?\Volume{`) {
		return fmt.Errorf("the file's final path is %s", path)
	}

	if data, err := os.ReadFile(path); err != nil || string(data) != "content" {
		return fmt.Errorf("reading: %q, %v", data, err)
	}
	if _, err := os.Stat(path); err != nil {
		return err
	}
	root := path[:strings.Index(path, "}")+2]
	entries, err := os.ReadDir(root)
	if err != nil || !slices.ContainsFunc(entries,
		func(e os.DirEntry) bool { return strings.EqualFold(e.Name(), "windows") }) {
		return fmt.Errorf("listing %s: %v, %v", root, entries, err)
	}
	return nil
}

// job makes a job a silo, as hcsshim does for HostProcess containers, and opens it again.
func job() error {
	name := windows.StringToUTF16Ptr("porthole-mends")
	h, err := windows.CreateJobObject(nil, name)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)

	const createSilo, siloBasic, ioAttribution = 35, 36, 42 // JOBOBJECTINFOCLASS
	var control [24]byte
	if _, err := windows.SetInformationJobObject(h, ioAttribution, uintptr(unsafe.Pointer(&control)),
		uint32(len(control))); err != nil {
		return fmt.Errorf("I/O attribution: %v", err)
	}
	if _, err := windows.SetInformationJobObject(h, createSilo, 0, 0); err != nil {
		return fmt.Errorf("silo: %v", err)
	}
	if _, err := windows.SetInformationJobObject(h, 9999, uintptr(unsafe.Pointer(&control)),
		uint32(len(control))); err == nil {
		return errors.New("a class that does not exist is accepted")
	}

	again, err := windows.CreateJobObject(nil, name)
	if err != nil {
		return fmt.Errorf("opening it again: %v", err)
	}
	defer windows.CloseHandle(again)
	if err := windows.QueryInformationJobObject(again, siloBasic, uintptr(unsafe.Pointer(&control)),
		uint32(len(control)), nil); err != nil {
		return fmt.Errorf("what is opened again is no silo: %v", err)
	}
	return nil
}

// backup writes a file from a backup stream in small pieces, beside a stream that has no place in a file, and reads it
// back.
func backup() error {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "f"))
	if err != nil {
		return err
	}
	defer f.Close()
	want := bytes.Repeat([]byte("0123456789abcdef"), 10_000)
	// The first stream is one that Wine keeps no place for; the file's content must come through
	// all the same.
	var stream bytes.Buffer
	w := winio.NewBackupStreamWriter(&stream)
	for _, part := range []struct {
		id   uint32
		data []byte
	}{{winio.BackupSecurity, []byte("not an access list")}, {winio.BackupData, want}} {
		if err := w.WriteHeader(&winio.BackupHeader{Id: part.id, Size: int64(len(part.data))}); err != nil {
			return err
		}
		if _, err := w.Write(part.data); err != nil {
			return err
		}
	}

	bw := winio.NewBackupFileWriter(f, false)
	// Pieces of 777 bytes end within headers and within data.
	if _, err := io.CopyBuffer(struct{ io.Writer }{bw}, struct{ io.Reader }{&stream}, make([]byte, 777)); err != nil {
		return fmt.Errorf("BackupWrite: %v", err)
	}
	if err := bw.Close(); err != nil {
		return err
	}
	if data, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(data, want) {
		return fmt.Errorf("the file has %d bytes, %v", len(data), err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	br := winio.NewBackupFileReader(f, false)
	defer br.Close()
	r := winio.NewBackupStreamReader(br)
	head, err := r.Next()
	if err != nil || head.Id != winio.BackupData || head.Size != int64(len(want)) {
		return fmt.Errorf("BackupRead: %+v, %v", head, err)
	}
	if data, err := io.ReadAll(r); err != nil || !bytes.Equal(data, want) {
		return fmt.Errorf("BackupRead gives %d bytes, %v", len(data), err)
	}
	return nil
}

// version asks every function that knows the version.
func version() error {
	v := windows.RtlGetVersion()
	major, minor, build := windows.RtlGetNtVersionNumbers()
	if v.MajorVersion != 10 || v.MinorVersion != 0 || major != 10 || minor != 0 || v.BuildNumber != build {
		return fmt.Errorf("RtlGetVersion %d.%d.%d, RtlGetNtVersionNumbers %d.%d.%d", v.MajorVersion, v.MinorVersion,
			v.BuildNumber, major, minor, build)
	}
	return nil
}

// currentVersion reads what Windows 10 and later still say in the registry.
func currentVersion() error {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, `Software\Microsoft\Windows NT\CurrentVersion`,
		registry.QUERY_VALUE)
	if err != nil {
		return err
	}
	defer k.Close()
	if s, _, err := k.GetStringValue("CurrentVersion"); err != nil || s != "6.3" {
		return fmt.Errorf("CurrentVersion is %q, %v", s, err)
	}
	return nil
}

// texts asks for what Windows says of errors.
func texts() error {
	_, noFile := os.Stat(`C:\none`)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	_, inUse := net.Listen("tcp", listener.Addr().String())
	listener.Close()
	_, refused := net.Dial("tcp", listener.Addr().String())
	for _, c := range []struct {
		err  error
		want string
	}{
		{windows.ERROR_ACCESS_DENIED, "Access is denied."},
		{noFile, "The system cannot find the file specified."},
		{inUse, "Only one usage of each socket address (protocol/network address/port) is normally permitted."},
		{refused, "No connection could be made because the target machine actively refused it."},
	} {
		if c.err == nil || !strings.HasSuffix(c.err.Error(), c.want) {
			return fmt.Errorf("%v, want %q", c.err, c.want)
		}
	}
	return nil
}

// unmended reports what bcryptprimitives.dll did not know how to mend.
func unmended() error {
	text := make([]byte, 4096)
	n, _, _ := syscall.NewLazyDLL("bcryptprimitives.dll").NewProc("porthole_unmended").
		Call(uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)))
	if n != 0 {
		return fmt.Errorf("%d: %s", n, strings.ReplaceAll(windows.ByteSliceToString(text), "\n", "; "))
	}
	return nil
}
