// Package program runs a command line and turns its error into an exit code and a line on standard error. Commands
// that run until they are stopped can write their log to a file, and be services of Windows.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/logging"
	"porthole.dev/porthole/internal/platform"
)

// services are the commands that run until they are stopped, with their names as services of Windows.
var services = map[string]string{"kubelet": "kubelet", "kube-proxy": "kube-proxy", "routes": "porthole-routes"}

// ServiceFlag is the name of the flag that makes a command a service of Windows.
const ServiceFlag = "windows-service"

// Root returns the command that has all others as subcommands. It prints nothing itself.
func Root(commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "porthole",
		Short: "Windows Server containers on Kubernetes: every part that a node needs",
		Example: "  porthole up                              # a cluster with emulated Windows nodes, on this machine\n" +
			"  porthole join 10.0.0.1:6443 --token …    # this machine becomes a node of a cluster that kubeadm made\n" +
			"  porthole status",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true // cli/completion is in its place
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		var unknown *pflag.NotExistError
		if errors.As(err, &unknown) {
			return usageError{fmt.Errorf("%w (%s)", err, hint(c, flagsLike(c, unknown.GetSpecifiedName())))}
		}
		return usageError{fmt.Errorf("%w (%s)", err, hint(c, nil))}
	})
	root.AddCommand(commands...)
	root.SetHelpCommand(helpCommand())
	root.InitDefaultHelpCmd()
	completed(root)
	misused(root)
	return root
}

// misused makes wrong arguments of a command, and of those below it, mistakes in the command line. A command that only
// groups others has no arguments: it shows its help without, and knows no other name.
func misused(c *cobra.Command) {
	if args := c.Args; args != nil {
		c.Args = func(c *cobra.Command, given []string) error {
			if err := args(c, given); err != nil {
				return usageError{fmt.Errorf("%w (see `%s --help`)", err, c.CommandPath())}
			}
			return nil
		}
	}
	if !c.Runnable() && c.HasSubCommands() {
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(c *cobra.Command, given []string) error {
			if len(given) == 0 {
				return c.Help()
			}
			c.SuggestionsMinimumDistance = distance
			return usageError{fmt.Errorf("%s has no command %q (%s)", c.CommandPath(), given[0],
				hint(c, c.SuggestionsFor(given[0])))}
		}
	}

	for _, below := range c.Commands() {
		misused(below)
	}
}

// distance is how many letters of a similar name may differ; two letters in the wrong order are two.
const distance = 2

// hint returns what to do about a name that a command does not know.
func hint(c *cobra.Command, similar []string) string {
	if len(similar) > 0 {
		return "did you mean " + strings.Join(similar, ", ") + "?"
	}
	return "see `" + c.CommandPath() + " --help`"
}

// flagsLike returns the flags of a command whose names are similar to one. Cobra compares names of commands only, so
// the flags stand for commands here.
func flagsLike(c *cobra.Command, name string) (similar []string) {
	names := cobra.Command{SuggestionsMinimumDistance: distance}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	for _, s := range names.SuggestionsFor(name) {
		similar = append(similar, "--"+s)
	}
	return similar
}

// LogFlags adds the flags of the log file to a command that runs until it is stopped. Run reads them before flags are
// parsed.
func LogFlags(fs *pflag.FlagSet) {
	fs.String(logging.FileFlag, "", logging.FileHelp)
	fs.Uint16(logging.SizeFlag, 0, logging.SizeHelp)
	fs.Uint16(logging.CountFlag, 0, logging.CountHelp)
}

// ExitCode is an error that only sets the exit code of the program: everything has been printed already.
type ExitCode int

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Beside returns the path of a file in the folder of this program; "" if there is no regular file of that name.
func Beside(name string) (path string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	path = filepath.Join(filepath.Dir(self), name)
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return "", nil
	}
	return path, nil
}

// usageError marks mistakes in the command line itself.
type usageError struct{ error }

// Misused marks an error as a mistake in the command line: the program ends with 2.
func Misused(err error) error { return usageError{err} }

// refusedError marks what the machine is not ready for.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// Refused marks an error by which a command ends before it has changed anything: the program ends with 4, as join does.
// An error whose method Refused returns true needs no mark.
func Refused(err error) error { return refusedError{err} }

// Run runs a command line until it ends or is interrupted. It returns the exit code: 0 done, 1 failed, 2 misused, 4
// refused.
//
// A service of Windows answers the service manager before its flags are parsed, so that an error in them is logged and
// the manager does not report "error 1053: the service did not respond". If the service fails, the process ends and
// Run does not return.
func Run(root *cobra.Command, args ...string) int {
	root.SetArgs(args)
	if len(args) == 0 || services[args[0]] == "" {
		return report(execute(root), false)
	}

	file := logging.FromArgs(args[1:])
	service := slices.ContainsFunc(args[1:], asksForService) || platform.StartedByServiceManager()
	logErr := toFile(file, service && platform.IsWindows)
	if service {
		managed, err := platform.AsService(platform.Service{Name: services[args[0]], Log: file.Path,
			Run: func(ctx context.Context) error {
				if logErr != nil {
					return logErr
				}
				return root.ExecuteContext(ctx)
			}})
		if managed {
			return report(err, file.Path != "")
		}
		klog.Background().Info("Not started by the service manager: running as a plain program", "reason", err)
	}
	if logErr != nil {
		return report(logErr, false)
	}
	return report(execute(root), file.Path != "")
}

// asksForService reports whether the argument is --windows-service, or sets it to anything but false.
func asksForService(arg string) bool {
	name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return strings.HasPrefix(arg, "-") && strings.ReplaceAll(name, "_", "-") == ServiceFlag &&
		(!given || !slices.Contains([]string{"false", "False", "FALSE", "f", "F", "0"}, value))
}

// toFile sends the log to the file of o, if it names one. If service is true, the path must not be relative.
func toFile(o logging.FileOptions, service bool) error {
	if o.Path == "" {
		return nil
	}
	if service && !filepath.IsAbs(o.Path) {
		return usageError{fmt.Errorf(
			"--%s %s: give a full path: the working folder of a service is C:\\Windows\\System32", logging.FileFlag,
			o.Path)}
	}
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	f, err := logging.OpenFile(o)
	if err != nil {
		return err
	}
	return logging.ToFile(f)
}

// execute runs the command line until it ends or is interrupted by a signal. A service of Windows must not listen to
// these signals: Go reports SIGTERM there also when any user logs off.
func execute(root *cobra.Command) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return root.ExecuteContext(ctx)
}

// report prints the error and returns its exit code. If logged is true, the log goes to a file, and report logs the
// error too.
func report(err error, logged bool) int {
	if err == nil {
		return 0
	}
	var code ExitCode
	if errors.As(err, &code) {
		return int(code)
	}
	if logged {
		klog.Background().Error(err, "Ending with an error")
	}
	fmt.Fprintln(os.Stderr, "porthole:", err)
	var usage usageError
	var refused refusedError
	var refuses interface{ Refused() bool }
	switch {
	case errors.As(err, &usage):
		return 2
	case errors.As(err, &refused), errors.As(err, &refuses) && refuses.Refused():
		return 4
	}
	return 1
}
