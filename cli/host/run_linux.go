package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/emulator/host"
)

// runFlags are the flags of `porthole host run`.
type runFlags struct {
	common
	host.RunOptions
	kept bool // this is the process that keeps the program
}

// runCommand has the exit code of the program.
func runCommand() *cobra.Command {
	var o runFlags
	c := &cobra.Command{
		Use:   "run [--dir D] NAME -- PROGRAM ARGS…",
		Short: "Run a Windows program on a host",
		Long: `Runs a Windows program on a host: by its C:\ path, its Linux path, or its name if it is part of Windows. It has this
command's input, output and terminal; its exit code becomes the command's own, of which Linux keeps the lowest 8 bits. It starts
in C:\. Of this machine's files it sees the folder that it lies in, and those of --show, read-only and on drive Z:, at the same
path. If the command is ended by a signal, the program ends with everything that it has started; an interruption (SIGINT) goes
to the program.`,
		Example: `  porthole host run h1 -- ./hello.exe --flag
  porthole host run win01 -- 'C:\k\porthole.exe' --help
  porthole host run h1 -- cmd /c ver`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0], args[1], args[2:]) },
	}

	o.flags(c, false)
	c.Flags().StringArrayVar(&o.Show, "show", nil,
		"folder of this machine that programs of the host can read while the program runs; may be repeated")
	c.Flags().StringArrayVarP(&o.Env, "env", "e", nil,
		"environment variable NAME=VALUE for the program; may be repeated")
	c.Flags().BoolVar(&o.kept, "kept", false, "")
	_ = c.Flags().MarkHidden("kept") // it is there
	return c
}

// run starts itself again as keeper, and the program in that second process.
func (o *runFlags) run(ctx context.Context, name, exe string, args []string) error {
	if err := needRoot("running a program on a host"); err != nil {
		return err
	}
	s, err := o.store()
	if err != nil {
		return err
	}
	h, err := s.Get(name)
	if err != nil {
		return err
	}
	// The first process makes sure that Wine is there; the keeper then only runs the program.
	if !o.kept {
		if _, err := s.Wine(ctx); err != nil {
			return err
		}
		return o.keeper(h, exe, args)
	}

	code, err := host.Run(h, o.RunOptions, exe, args...)
	if err != nil {
		return err
	}
	return program.ExitCode(code)
}

// keeper runs the command once more, in a process that ends the program when this one is gone, also by SIGKILL.
func (o *runFlags) keeper(h host.Host, exe string, args []string) error {
	runtime.LockOSThread() // the keeper hears of the end of the thread that starts it
	self, err := os.Executable()
	if err != nil {
		return err
	}
	line := []string{"host", "run", "--kept", "--dir", o.dir}
	for _, variable := range o.Env {
		line = append(line, "--env", variable)
	}
	for _, dir := range o.Show {
		line = append(line, "--show", dir)
	}
	cmd := exec.Command(self, append(append(line, h.Name, "--", exe), args...)...)
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("running %s on host %s: %w", exe, h.Name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	// An interrupt typed at the terminal reaches the program by itself; other signals are passed
	// on.
	for {
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return fmt.Errorf("running %s on host %s: %w", exe, h.Name, err)
			}
			return program.ExitCode(cmd.ProcessState.ExitCode())
		case s := <-signals:
			if s != unix.SIGINT || !host.FromTerminal() {
				_ = cmd.Process.Signal(s) // it may have ended
			}
		}
	}
}
