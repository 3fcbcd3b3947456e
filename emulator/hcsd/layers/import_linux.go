package layers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/hostfs"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/beneath"
)

// folderSuffix ends the name of the file that describes the folder beside it.
const folderSuffix = ".$wcidirs$"

// maxImportDepth is how deep the folders of a layer may be, some times what images have. Each level keeps its whole
// path in memory.
const maxImportDepth = 512

// Import makes a layer of the files that hcsshim has written into a folder, each in the form of a backup stream
// (BackupWrite). parents are the layers below it, topmost first.
//
// The layer's folder shows all files then, those of the layers below too, as on Windows: programs delete there what the
// image deletes, and make hard links. It is an overlay mount until the layer is used as one below others; what was
// changed by then, whiteouts too, is the layer.
func (s *Store) Import(path, folder string, parents []string) error {
	return s.with(path, func(l *layer) error {
		if len(parents) == 0 {
			return hcsd.ErrInvalidArgument.WithText("layer %s has no layers below it", l.path)
		}

		source, err := s.host.Open(folder)
		if err != nil {
			return err
		}
		defer source.Close()
		lower, release, err := s.lowerDirs(parents)
		defer release()
		if err != nil {
			return err
		}
		if err := s.ensure(l); err != nil {
			return err
		}
		upper, work := l.ours.own()
		if err := importInto(upper, source.Path(), l.root); err != nil {
			return fmt.Errorf("importing layer %s: %w", l.path, err)
		}
		if err := wine.Own(upper); err != nil {
			return fmt.Errorf("importing layer %s: %w", l.path, err)
		}
		if err := l.mkdir(filesOf); err != nil {
			return err
		}
		if info, err := l.root.Lstat(filesOf); err != nil || !info.IsDir() {
			return hcsd.ErrInvalidData.WithText("layer %s: %s is no folder", l.path, filesOf)
		}
		files, err := l.files()
		if err != nil {
			return err
		}
		defer files.Close()
		return guest.Mount(files.Path(), lower, upper, work)
	})
}

// importInto writes the files of an import folder to the folder files, and its hives into the layer. Nothing is
// written outside of the two.
func importInto(files, source string, layer *os.Root) error {
	from, err := hostfs.OpenRoot(source)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := hostfs.OpenRoot(files)
	if err != nil {
		return err
	}
	defer to.Close()

	i := importer{from, to}
	if err := i.tree(filesOf, "."); err != nil {
		return err
	}
	return copyHives(from, layer)
}

// importer copies between two folders, neither of which it can leave.
type importer struct{ from, to *os.Root }

// tree imports the folder name of the source as the folder as.
func (i importer) tree(name, as string) error {
	if strings.Count(as, "/") >= maxImportDepth {
		return hcsd.ErrInvalidData.WithText("folders are deeper than %d: %.200s…", maxImportDepth, as)
	}
	entries, err := entriesOf(i.from, name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}

	for _, e := range entries {
		from, to := path.Join(name, e.Name()), path.Join(as, e.Name())
		switch folder, described := strings.CutSuffix(to, folderSuffix); {
		case e.IsDir():
			err = i.folder(from, to)
		case !e.Type().IsRegular():
			err = hcsd.ErrInvalidData.WithText("%s is neither a file nor a folder", from)
		case described:
			err = i.described(from, folder)
		default:
			err = i.file(from, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entriesOf lists a folder below an open one. The dot makes an error of a named pipe that has taken the folder's place:
// an open would wait for a writer.
func entriesOf(root *os.Root, name string) ([]os.DirEntry, error) {
	dir, err := root.Open(name + "/.")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.ReadDir(-1)
}

// folder imports one folder with what is in it. One that is described as a link has been made as such, or will be.
func (i importer) folder(from, to string) error {
	if err := i.to.Mkdir(to, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if info, err := i.to.Lstat(to); err != nil || !info.IsDir() {
		return err
	}
	return i.tree(from, to)
}

// described imports what is said of a folder: it is a link, or it has an owner.
func (i importer) described(from, to string) error {
	e, err := i.entry(from, discard{})
	if err != nil {
		return err
	}
	if e.Reparse == nil {
		return i.owned(to, e.Owner)
	}
	target, err := hcsd.LinkTarget(to, e.Reparse)
	if err != nil {
		return err
	}
	if err := beneath.RemoveIn(i.to, to); err != nil {
		return err
	}
	return i.to.Symlink(target, to)
}

// file imports a file, or a link to one.
func (i importer) file(from, to string) error {
	f, err := i.to.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	e, err := i.entry(from, f)
	err = errors.Join(err, own(f, e.Owner), f.Close())
	if err != nil || e.Reparse == nil {
		return err
	}
	target, err := hcsd.LinkTarget(to, e.Reparse)
	if err != nil {
		return err
	}
	if err := i.to.Remove(to); err != nil {
		return err
	}
	return i.to.Symlink(target, to)
}

// owned gives a folder its owner. It may come before the folder.
func (i importer) owned(to string, owner []byte) error {
	if owner == nil {
		return nil
	}
	if err := i.to.MkdirAll(to, 0o755); err != nil {
		return err
	}
	f, err := i.to.Open(to + "/.")
	if err != nil {
		return err
	}
	return errors.Join(own(f, owner), f.Close())
}

// ownerAttribute is the extended attribute with the SID of a file's owner (emulator/dll/mend_owner.c).
const ownerAttribute = "user.porthole.owner"

// own keeps the owner of a file, nil for none. A file system without extended attributes loses it.
func own(f *os.File, owner []byte) error {
	if owner == nil {
		return nil
	}
	err := unix.Fsetxattr(int(f.Fd()), ownerAttribute, owner, 0)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// entry reads one file of the import folder.
func (i importer) entry(name string, content interface {
	WriteAt([]byte, int64) (int, error)
}) (hcsd.Entry, error) {
	f, err := hostfs.OpenRegular(i.from, name)
	if err != nil {
		return hcsd.Entry{}, err
	}
	defer f.Close()
	e, err := hcsd.ReadEntry(bufio.NewReader(f), content)
	if err != nil {
		return e, fmt.Errorf("%s: %w", name, err)
	}
	return e, nil
}

// discard takes what a folder's description contains.
type discard struct{}

func (discard) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }

// copyHives copies the folder of registry hives, which are plain files there.
func copyHives(from, layer *os.Root) error {
	entries, err := entriesOf(from, "Hives")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}

	err = layer.Mkdir("Hives", 0o755)
	if err == nil {
		err = layer.Lchown("Hives", wine.Owner, wine.Owner)
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		if err := copyHive(from, layer, "Hives/"+e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// maxHive is the most bytes that a hive can have: places in it are numbers of 31 bits.
const maxHive = 1 << 31

// copyHive copies a hive between two folders, as much of it as there is when the copy begins: programs of the host can
// make it larger meanwhile.
func copyHive(from, to *os.Root, name string) error {
	src, err := hostfs.OpenRegular(from, name)
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	if info.Size() > maxHive {
		return hcsd.ErrInvalidData.WithText("%s has %d bytes: no hive has more than %d", name, info.Size(), maxHive)
	}

	dst, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, io.LimitReader(src, info.Size()))
	return errors.Join(err, dst.Chown(wine.Owner, wine.Owner), dst.Close())
}
