package wine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"porthole.dev/porthole/internal/slow"
)

// mendLimit is how long the checks of one mend may take; a second is usual. Without a mend a program may hang.
const mendLimit = 20 * time.Second

// Mends asks what this Wine needs of each mend: it runs a program that does what mends are for, with all of them and
// with each left out, in a prefix of its own that it makes on the template of o and removes. It takes 20 s. In that
// prefix alone lies a DLL of ours in which a mend is switched off; hosts and containers have no say in it.
func (t Tools) Mends(ctx context.Context, o TemplateOptions) (list []Mend, err error) {
	unfit, err := t.unfit(ctx, o.DLLDir)
	if err != nil {
		return nil, fmt.Errorf("asking about the mends of Wine: %w", err)
	}
	if err := t.EnsureTemplate(ctx, o); err != nil {
		return nil, err
	}
	m, err := t.newMender(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("asking about the mends of Wine: %w", err)
	}
	defer func() { err = errors.Join(err, m.close()) }()

	for _, p := range mendProbes {
		functions := unfitFor(p.name, unfit)
		switch {
		case functions != "":
			list = append(list, Mend{Name: p.name, What: p.what, Outcome: MendUnfit, Why: functions})
		case p.without != "":
			list = append(list, Mend{Name: p.name, What: p.what, Outcome: MendRequired, Why: p.without})
		default:
			found, err := m.probe(ctx, p)
			if err != nil {
				return nil, fmt.Errorf("asking about the mend %s: %w", p.name, err)
			}
			list = append(list, found)
		}
	}
	return list, nil
}

// mender is a prefix in which mends are left out.
type mender struct {
	tools  Tools
	dir    string
	mount  Mount
	prefix Prefix
	dll    []byte // all mends
	stop   func() error
	known  map[string]string // what checks say with all mends, those that were asked
}

func (t Tools) newMender(ctx context.Context, o TemplateOptions) (m *mender, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(o.Dir), "mends-")
	if err != nil {
		return nil, err
	}
	m = &mender{tools: t, dir: dir, mount: PrefixMount(o.Dir, dir), known: map[string]string{}}
	m.prefix = Prefix{Dir: m.mount.Target}
	err = errors.Join(os.Chmod(dir, 0o755), m.mount.Ensure())
	if err == nil {
		m.dll, err = os.ReadFile(filepath.Join(o.DLLDir, mendDLL))
	}
	if err == nil {
		err = m.prefix.SetMachine("node-with-a-long-name")
	}
	if err == nil {
		err = m.install(filepath.Join(o.DLLDir, mendsProgram))
	}
	if err == nil {
		m.stop, err = t.StartServer(ctx, m.prefix, (*exec.Cmd).Start)
	}
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// install puts the program mends on C:.
func (m *mender) install(from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("%w (make dll builds it)", err)
	}
	return m.prefix.WriteFile("drive_c/mends.exe", data, 0o755)
}

func (m *mender) close() (err error) {
	if m.stop != nil {
		socket, e := m.prefix.socketDir()
		err = errors.Join(m.stop(), e, removeSocket(socket))
	}
	return errors.Join(err, m.mount.Unmount(), os.RemoveAll(m.dir))
}

// probe has the checks of a mend made with it and without it.
func (m *mender) probe(ctx context.Context, p mendProbe) (Mend, error) {
	with, ok := m.known[strings.Join(p.checks, " ")]
	if !ok {
		with = m.run(ctx, p, m.tools.Env(m.prefix))
		m.known[strings.Join(p.checks, " ")] = with
	}
	if p.library {
		return p.judge(with, m.run(ctx, p, overridden(m.tools.Env(m.prefix), p.name, "b"))), ctx.Err()
	}

	off, err := switchedOff(m.dll, p.name)
	if err == nil {
		err = m.setDLL(off)
	}
	if err != nil {
		return Mend{}, err
	}
	without := m.run(ctx, p, m.tools.Env(m.prefix))
	return p.judge(with, without), errors.Join(ctx.Err(), m.setDLL(m.dll))
}

// setDLL gives programs that start from now on this DLL. It is a new file: programs that run have the old one in
// their memory.
func (m *mender) setDLL(dll []byte) error {
	return m.prefix.WriteFile("drive_c/windows/system32/"+mendDLL, dll, 0o755)
}

// run has the checks of a mend made, and returns what is wrong; "" if nothing is.
func (m *mender) run(ctx context.Context, p mendProbe, env []string) string {
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(mendLimit))
	defer cancel()
	cmd := m.tools.Command(ctx, m.prefix, `C:\mends.exe`, p.checks...)
	cmd.Env = env
	if p.env != "" {
		cmd.Env = append(cmd.Env, p.env)
	}
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout = &out // not its standard error: Wine writes there
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("it took more than %v", mendLimit)
	}
	return wrong(p.checks, parseChecks(out.String()), err)
}
