// Package logs rotates the log files of containers: a file that is too long is renamed, later compressed, and in the
// end removed. The files have upstream's names.
//
//	0.log                        what the runtime writes
//	0.log.20260102-030405        renamed last; log readers may still follow it
//	0.log.20260101-030405.gz     older ones, compressed
package logs

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/internal/loop"
)

// Parts of the names of rotated files; upstream's, which log collectors know.
const (
	stampLayout = "20060102-150405"
	compressed  = ".gz"
	temporary   = ".tmp"
)

// Bounds of a file that is compressed. A rotated one has MaxBytes and what came until the pass; only a container that
// writes into the folder itself makes a much larger one, which would hold up the logs of all others. It stays as it is
// until it is the oldest.
const (
	mostSizes  = 4        // times MaxBytes
	mostSecond = 32 << 20 // bytes, for each second between two passes
)

// Container is a running container and its log.
type Container struct{ ID, Path string }

// Options configure a Rotator. Running and Reopen are required.
type Options struct {
	// Running lists the running containers.
	Running func() []Container
	// Reopen makes the runtime write to a new file at the old path (CRI ReopenContainerLog).
	Reopen func(ctx context.Context, id string) error
	// MaxBytes is the size at which a file is rotated. Zero or less is never.
	MaxBytes int64
	// MaxFiles is the number of files of one container, at least 2.
	MaxFiles int
	// Workers is how many logs are rotated at the same time; 1 if it is zero. Every is the pause between passes; 10 s
	// if it is zero.
	Workers int
	Every   time.Duration
	// Now is the clock; time.Now if it is nil.
	Now func() time.Time
}

// Rotator rotates the logs of running containers.
type Rotator struct{ o Options }

// New returns a Rotator, or an error if an option is not valid.
func New(o Options) (*Rotator, error) {
	if o.MaxFiles < 2 {
		return nil, fmt.Errorf("containerLogMaxFiles is %d: it must be greater than 1", o.MaxFiles)
	}
	o.Workers = max(o.Workers, 1)
	if o.Every <= 0 {
		o.Every = 10 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Rotator{o}, nil
}

// Run rotates until ctx ends.
func (r *Rotator) Run(ctx context.Context) {
	if r.o.MaxBytes <= 0 {
		return
	}
	loop.Loop{Later: true, Period: r.o.Every, Pass: func(ctx context.Context) error {
		r.Pass(ctx)
		return nil
	}}.Run(ctx)
}

// Pass rotates each log that is too long now. A failure is logged; the next pass tries again.
func (r *Rotator) Pass(ctx context.Context) {
	work := make(chan Container)
	var all sync.WaitGroup
	for range r.o.Workers {
		all.Go(func() {
			for c := range work {
				if err := r.one(ctx, c); err != nil {
					klog.FromContext(ctx).Error(err, "Rotating a log failed", "containerID", c.ID)
				}
			}
		})
	}
	for _, c := range r.o.Running() {
		if c.Path != "" && ctx.Err() == nil {
			work <- c
		}
	}
	close(work)
	all.Wait()
}

// one rotates the log of one container if it is too long. A container that has the folder mounted may put links, pipes
// and other things in it: only regular files of the folder are renamed, read and removed, and all names are looked up
// in the open folder.
func (r *Rotator) one(ctx context.Context, c Container) error {
	dir, name, err := folder(c.Path)
	if err != nil {
		return fmt.Errorf("opening the folder of log %s: %w", c.Path, err)
	}
	defer dir.Close()

	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) { // an earlier rotation stopped half way
		return r.reopen(ctx, c)
	}
	if err != nil || info.Size() < r.o.MaxBytes || !info.Mode().IsRegular() {
		return err
	}

	old, err := rotatedFiles(dir, name)
	if err != nil {
		return err
	}
	if old, err = r.removeExcess(dir, old); err != nil {
		return err
	}
	for _, name := range old {
		if !strings.HasSuffix(name, compressed) {
			if err := r.compress(ctx, dir, name); err != nil {
				return err
			}
		}
	}
	return r.rename(ctx, c, dir, name)
}

// rename gives the log its name of an old one and has the runtime begin a new one.
func (r *Rotator) rename(ctx context.Context, c Container, dir *os.Root, name string) error {
	rotated := name + "." + r.o.Now().UTC().Format(stampLayout)
	if _, err := dir.Lstat(rotated); err == nil {
		return fmt.Errorf("rotating %s: it was rotated in this second already", c.Path)
	}
	if err := dir.Rename(name, rotated); err != nil {
		return fmt.Errorf("rotating a log: %w", err)
	}
	if err := r.reopen(ctx, c); err != nil {
		// the runtime still writes to the old file: rename it back, so that nothing is lost
		return errors.Join(err, dir.Rename(rotated, name))
	}
	return nil
}

func (r *Rotator) reopen(ctx context.Context, c Container) error {
	if err := r.o.Reopen(ctx, c.ID); err != nil {
		return fmt.Errorf("reopening the log of container %s: %w", c.ID, err)
	}
	return nil
}

// rotatedFiles lists the rotated files of a log, oldest first, and removes what an interrupted compression left.
func rotatedFiles(dir *os.Root, log string) ([]string, error) {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("listing logs: %w", err)
	}
	var all, keep []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), log+".") && e.Type().IsRegular() {
			all = append(all, e.Name())
		}
	}
	for _, name := range all {
		if strings.HasSuffix(name, temporary) ||
			!strings.HasSuffix(name, compressed) && slices.Contains(all, name+compressed) {
			if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("removing what an interrupted rotation left: %w", err)
			}
			continue
		}
		keep = append(keep, name)
	}
	slices.Sort(keep)
	return keep, nil
}

// removeExcess removes the oldest files. There will be MaxFiles, with the current file and the one that is rotated
// next.
func (r *Rotator) removeExcess(dir *os.Root, old []string) ([]string, error) {
	for len(old) > r.o.MaxFiles-2 {
		if err := dir.Remove(old[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("removing an old log: %w", err)
		}
		old = old[1:]
	}
	return old, nil
}

// compresses reports whether a rotated file of this size is compressed.
func (r *Rotator) compresses(size int64) bool {
	return (size-int64(r.o.Every.Seconds()*mostSecond))/mostSizes <= r.o.MaxBytes
}

// compress replaces a file of a folder by a compressed one, with ".gz" at its name and the same permissions. It leaves
// one alone that is too large.
func (r *Rotator) compress(ctx context.Context, dir *os.Root, name string) error {
	in, err := beneath.FileIn(dir, name, os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("compressing log %s: %w", name, err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return fmt.Errorf("compressing log %s: %w", name, err)
	}
	if !r.compresses(info.Size()) {
		return nil
	}

	tmp := name + temporary
	_ = dir.Remove(tmp) // it is not a file, which rotatedFiles would have removed
	out, err := dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return fmt.Errorf("compressing log %s: %w", name, err)
	}

	zip := gzip.NewWriter(out)
	_, err = io.Copy(zip, Until(ctx, io.LimitReader(in, info.Size()))) // a file that still grows has no end
	err = errors.Join(err, zip.Close(), out.Close())
	if err == nil {
		err = dir.Rename(tmp, name+compressed)
	}
	if err != nil {
		_ = dir.Remove(tmp)
		return fmt.Errorf("compressing log %s: %w", name, err)
	}

	in.Close() // Windows does not remove an open file
	if err := dir.Remove(name); err != nil {
		return fmt.Errorf("removing a log that was compressed: %w", err)
	}
	return nil
}

// Remove removes the log of a container that is gone, with its rotated files.
func Remove(path string) error {
	if path == "" {
		return nil
	}
	dir, name, err := folder(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the folder of log %s: %w", path, err)
	}
	defer dir.Close()

	old, err := rotatedFiles(dir, name)
	for _, n := range append(old, name) {
		if e := dir.Remove(n); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("removing a log: %w", e))
		}
	}
	return err
}
