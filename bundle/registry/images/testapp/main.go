// Command testapp is the program inside the test image: one source for every system and build, with a subcommand for
// each thing that tests of pods, services and limits do inside a container.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

const usage = `testapp COMMAND
  serve [--http :80] [--tcp :7] [--udp :7]   HTTP, TCP echo and UDP echo (an empty address leaves one out)
  get URL [SECONDS]         print what an HTTP server answers
  tcp HOST:PORT TEXT        send TEXT, print the echo
  udp HOST:PORT TEXT        send TEXT, print the echo
  resolve NAME              addresses of NAME by the system's resolver
  dnsudp SERVER NAME [N]    addresses of NAME by one query over UDP, or by N queries
  spread N URL              N connections; the first word of each answer, with how often it came
  addresses                 addresses of the interfaces, with their lengths
  burn [SECONDS] [THREADS]  use CPU; prints CPU seconds used per second
  hog MIB                   take memory and keep it
  sleep [SECONDS]           do nothing (for ever without SECONDS)
  env [NAME...]             print the environment
  cat FILE...               print files
  write FILE TEXT...        write a file
  ls [DIR]                  names in a folder
  processes                 names of the programs that this one sees
  exit CODE                 end with CODE
  echo TEXT...              print TEXT
  copy                      standard input to standard output
  console                   print the size of the terminal as it changes, and what is typed; "exit N" ends it
  id                        host name, system, architecture, working folder, arguments
`

// command is one subcommand, with the words that follow its name. An error ends the program with
// code 1.
type command func(args []string) error

func commands() map[string]command {
	return map[string]command{
		"serve": serve, "get": get, "tcp": tcpClient, "udp": udpClient, "resolve": resolve, "dnsudp": dnsUDP,
		"spread": spread, "addresses": addresses,
		"burn": burn, "hog": hog, "sleep": sleep, "env": env, "cat": cat, "write": write, "ls": ls, "exit": exit,
		"copy": copyInput, "console": console,
		"echo": func(args []string) error { fmt.Println(strings.Join(args, " ")); return nil },
		"processes": func([]string) error {
			names, err := processNames()
			fmt.Println(strings.Join(names, "\n"))
			return err
		},
		"id": func([]string) error { return identify(os.Stdout) },
	}
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	run, ok := commands()[os.Args[1]]
	if !ok {
		fmt.Fprintf(os.Stderr, "testapp: no command %q\n%s", os.Args[1], usage)
		os.Exit(2)
	}
	if err := run(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "testapp:", err)
		os.Exit(1)
	}
}

// identify prints who and where the program is, in lines NAME=VALUE that tests parse.
func identify(w io.Writer) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "hostname=%s\nos=%s\narch=%s\npid=%d\ndir=%s\nargs=%q\n", host, runtime.GOOS,
		runtime.GOARCH, os.Getpid(), dir, os.Args)
	return err
}

// get prints what a server answers; a status from 400 on is an error, after the body.
func get(args []string) error {
	if len(args) == 0 {
		return errors.New("get needs a URL")
	}
	client := http.Client{Timeout: seconds(args, 1, 5)}
	r, err := client.Get(args[0])
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if _, err := io.Copy(os.Stdout, r.Body); err != nil {
		return err
	}
	if r.StatusCode >= 400 {
		return fmt.Errorf("%s: %s", args[0], r.Status)
	}
	return nil
}

// udpClient sends one packet and prints what comes back.
func udpClient(args []string) error {
	if len(args) < 2 {
		return errors.New("udp needs HOST:PORT and TEXT")
	}
	answer, err := udpExchange(args[0], []byte(strings.Join(args[1:], " ")), 5*time.Second)
	if err != nil {
		return err
	}
	fmt.Println(string(answer))
	return nil
}

// tcpClient sends one message and prints what comes back.
func tcpClient(args []string) error {
	if len(args) < 2 {
		return errors.New("tcp needs HOST:PORT and TEXT")
	}
	c, err := net.DialTimeout("tcp", args[0], 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}

	text := strings.Join(args[1:], " ")
	if _, err := c.Write([]byte(text)); err != nil {
		return err
	}

	answer := make([]byte, 64<<10)
	n, err := c.Read(answer)
	if err != nil {
		return err
	}
	fmt.Println(string(answer[:n]))
	return nil
}

// sleep ends early only when it has no number of seconds.
func sleep(args []string) error {
	if len(args) == 0 {
		waitForStop()
		return nil
	}
	time.Sleep(seconds(args, 0, 0))
	return nil
}

// env prints the values alone if names are given. A variable that is not set is an error.
func env(args []string) error {
	if len(args) == 0 {
		all := os.Environ()
		slices.Sort(all)
		fmt.Println(strings.Join(all, "\n"))
		return nil
	}
	for _, name := range args {
		value, ok := os.LookupEnv(name)
		if !ok {
			return fmt.Errorf("environment variable %s is not set", name)
		}
		fmt.Println(value)
	}
	return nil
}

func cat(args []string) error {
	for _, name := range args {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(os.Stdout, f)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// write makes the folders above the file. It ends the text with a line break.
func write(args []string) error {
	if len(args) == 0 {
		return errors.New("write needs a file")
	}
	if err := os.MkdirAll(filepath.Dir(args[0]), 0o755); err != nil {
		return err
	}
	return os.WriteFile(args[0], []byte(strings.Join(args[1:], " ")+"\n"), 0o644)
}

func ls(args []string) error {
	dir := "."
	if len(args) > 0 {
		dir = args[0]
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		fmt.Println(e.Name())
	}
	return err
}

// exit ends the program with the code; without one it succeeds.
func exit(args []string) error {
	if len(args) == 0 {
		return nil
	}
	code, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	os.Exit(code)
	return nil
}

func copyInput([]string) error {
	_, err := io.Copy(os.Stdout, os.Stdin)
	return err
}

// seconds reads the argument at i as seconds, fractions allowed; otherwise is for one that is
// missing or no number.
func seconds(args []string, i int, otherwise float64) time.Duration {
	value := otherwise
	if len(args) > i {
		if v, err := strconv.ParseFloat(args[i], 64); err == nil {
			value = v
		}
	}
	return time.Duration(value * float64(time.Second))
}
