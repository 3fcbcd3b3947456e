package container

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/hostfs"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/beneath"
)

// Options of a Runtime.
type Options struct {
	Host     hostfs.Host // required
	Cgroup   string      // of all containers of the host, in all hierarchies; required
	Template string      // Wine prefix that containers start from; required
	Tools    wine.Tools  // required
	Runc     string      // the runc program; required
	CPUs     int         // of the machine; required: limits are shares of all
}

// Runtime makes, starts and ends the containers of one host. It keeps nothing in memory and is safe for concurrent use;
// of two calls for one key at the same moment the caller chooses the order.
type Runtime struct {
	o    Options
	host hostfs.Host
	runc runc
}

// New returns the runtime of a host.
func New(o Options) *Runtime {
	return &Runtime{o: o, host: o.Host, runc: runc{o.Runc, o.Host.Path("runc")}}
}

func (r *Runtime) bundle(key string) bundle { return bundle{r.host.SystemDir(key)} }

// Prepare makes the root folder of containers, and takes away what an hcsd that was killed has left there. No container
// may be on its way.
func (r *Runtime) Prepare() error {
	if err := errors.Join(r.root().unstageAll(), r.root().ensure()); err != nil {
		return err
	}
	return removeLogs(r.runc.root)
}

// Remove ends a container and removes its folder. Nothing there is success.
func (r *Runtime) Remove(ctx context.Context, key string) error {
	return errors.Join(r.runc.delete(ctx, key), beneath.RemoveAll(r.bundle(key).dir))
}

// End ends a container, whose folder stays. One that is not there is success.
func (r *Runtime) End(ctx context.Context, key string) error { return r.runc.delete(ctx, key) }

// RemoveProgram removes the files of a program that has ended.
func (r *Runtime) RemoveProgram(key string, n int) { r.bundle(key).removeProgram(n) }

// Sweep removes all containers but those that are known.
func (r *Runtime) Sweep(ctx context.Context, known map[string]bool) error {
	entries, err := os.ReadDir(r.host.Path("systems"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !known[e.Name()] {
			err = errors.Join(err, r.Remove(ctx, e.Name()))
		}
	}
	return err
}

// Update gives a container the limits of a document.
func (r *Runtime) Update(ctx context.Context, key string, doc hcsd.Container) error {
	return r.runc.update(ctx, key, r.resources(&doc))
}

// ExitCode reads the exit code of a program that has ended. ok is false if its launcher ended before it could tell it.
func (r *Runtime) ExitCode(key string, n int) (code uint32, ok bool) {
	folder, err := r.bundle(key).openRun()
	if err != nil {
		return 0, false
	}
	defer folder.close()
	return folder.exitCode(n)
}

// Found returns how many processes of a container Linux has killed for lack of memory, and the highest number of a
// program that was begun in it.
func (r *Runtime) Found(key string, init Process) (kills uint64, last int) {
	return init.MemoryKills(), r.bundle(key).lastProgram()
}

// Reopen opens the standard streams of a program that an earlier hcsd started. Its input was closed with that one.
func (r *Runtime) Reopen(key string, n int) *Streams { return reopenStreams(r.bundle(key).dir, n) }

// Clean ends the containers of a host, whose daemon must have ended. Nothing there is
// success.
func (r *Runtime) Clean(ctx context.Context) error {
	systems, err := os.ReadDir(r.runc.root)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var all []error
	for _, e := range systems {
		if e.IsDir() {
			all = append(all, r.runc.delete(ctx, e.Name()))
		}
	}
	return errors.Join(all...)
}

// Root is the root folder of all containers.
func (r *Runtime) Root() string { return r.root().path() }

// RemoveRoot removes the root folder of the containers, which is in /run. No container may run. It is success if there
// is none.
func (r *Runtime) RemoveRoot() error { return r.root().remove() }

// poll waits for what has no event of its own, such as a file that a program in a container writes. It returns ctx's
// error.
func poll(ctx context.Context, every time.Duration, done func() bool) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// KeyOf names the folder of a system, and its container of runc.
func KeyOf(id string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
	}
	if len(id) <= 80 && strings.IndexFunc(id, func(r rune) bool { return !plain(r) }) < 0 {
		return id
	}
	return hcsd.NameToGUID(id)
}
