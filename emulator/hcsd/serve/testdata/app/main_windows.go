// App is a program in a container of the tests. Without an argument it waits for a signal, prints which one came, and
// ends with an exit code of 32 bits. With the argument "plain" it does not handle signals, so that Windows ends it;
// with "console" it does what onConsole says; "environment" prints its variables, "arguments" its arguments as JSON,
// "readlink" where a link leads, "link" makes one, "listen" and "dial" are the ends of a socket that is a file,
// "fill" writes 30 MiB, "read-only" removes files that are, "handles" describes its standard handles, "user" its
// user, "restricted" that of a program with fewer rights, "file" a file; with any other it copies its input to its
// output.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "plain" {
		fmt.Println("ready")
		time.Sleep(time.Hour)
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM)
	if len(os.Args) > 1 {
		run(os.Args[1], os.Args[2:], asked)
		return
	}

	fmt.Println("ready")
	fmt.Println(<-asked)
	os.Exit(0xc000013a)
}

// run does what the first argument says, with those behind it.
func run(what string, args []string, asked <-chan os.Signal) {
	switch what {
	case "console":
		os.Exit(onConsole(asked, len(args) > 0))
	case "environment":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "arguments":
		_ = json.NewEncoder(os.Stdout).Encode(os.Args[1:])
	case "readlink":
		fmt.Println(os.Readlink(args[0]))
	case "link":
		fmt.Println(os.Symlink(args[0], args[1]))
	case "fill":
		fmt.Println(os.WriteFile(args[0], make([]byte, 30<<20), 0o600))
	case "handles":
		describeHandles()
	case "read-only":
		fmt.Println(removeReadOnly(args[0]))
	case "user":
		fmt.Println(describeUser())
	case "restricted":
		fmt.Println(describeRestricted())
	case "file":
		fmt.Println(describeFile(args[0]))

	case "listen":
		listen(args[0])
	case "dial":
		fmt.Println(dial(args[0], args[1]))
	default:
		n, err := io.Copy(os.Stdout, os.Stdin)
		fmt.Println(n, err)
	}
}

// removeReadOnly makes a folder with files that are read-only. It makes one of them writable through a handle with the
// right for that, as hcsshim does, looks that the other cannot be written, and removes the folder.
func removeReadOnly(folder string) error {
	one, two := filepath.Join(folder, "one"), filepath.Join(folder, "two")
	if err := errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(one, nil, 0o444),
		os.WriteFile(two, nil, 0o444)); err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(one)
	if err != nil {
		return err
	}
	h, err := windows.CreateFile(name, windows.FILE_WRITE_ATTRIBUTES|windows.DELETE, windows.FILE_SHARE_DELETE, nil,
		windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		return err
	}
	basic := struct {
		times      [4]int64
		attributes uint32
	}{attributes: windows.FILE_ATTRIBUTE_NORMAL}
	info, size := (*byte)(unsafe.Pointer(&basic)), uint32(unsafe.Sizeof(basic))
	err = windows.SetFileInformationByHandle(h, windows.FileBasicInfo, info, size)
	if err := errors.Join(err, windows.CloseHandle(h), os.WriteFile(one, []byte("x"), 0o644)); err != nil {
		return err
	}

	if err := os.WriteFile(two, nil, 0o644); !errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("writing to a file that is read-only: %w", err)
	}
	return os.RemoveAll(folder)
}

// listen answers each client with what it says, until one says "end".
func listen(path string) {
	l, err := net.Listen("unix", path)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ready")
	for end := false; !end; {
		c, err := l.Accept()
		if err != nil {
			fmt.Println(err)
			return
		}
		said, err := io.ReadAll(c)
		if len(said) > 0 { // a stranger has no word
			fmt.Printf("%d %.10s %v\n", len(said), said, err)
		}
		_, _ = c.Write(said)
		c.Close()
		end = string(said) == "end"
	}
	fmt.Println(l.Close())
}

// dial says something, which is repeated where it ends with "*", and returns whether the answer is the same.
func dial(path, text string) string {
	if head, ok := strings.CutSuffix(text, "*"); ok {
		text = strings.Repeat(head, 1<<20)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	go func() {
		_, _ = io.WriteString(c, text)
		_ = c.(*net.UnixConn).CloseWrite()
	}()
	answer, err := io.ReadAll(c)
	return fmt.Sprint(string(answer) == text, err)
}
