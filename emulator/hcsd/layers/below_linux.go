package layers

import (
	"errors"
	"os"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/hostfs"
)

// lowerDirs are the folders on this machine with the files of layers. A layer that was imported is finished with its
// first use as one. The caller releases what they are held by when it has mounted them.
func (s *Store) lowerDirs(paths []string) (dirs []string, release func(), err error) {
	var held []hostfs.Place
	release = func() {
		for _, p := range held {
			p.Close()
		}
	}
	for _, path := range paths {
		l, err := s.open(path)
		if err != nil {
			return nil, release, err
		}
		dir, files, err := l.shownFiles()
		l.close()
		if err != nil {
			return nil, release, err
		}
		if files.File != nil {
			held = append(held, files)
		}
		dirs = append(dirs, dir)
	}
	return dirs, release, nil
}

// shownFiles is the folder with a layer's files: for an imported one what it changes, in our folder; else files holds
// it, which the caller closes.
func (l *layer) shownFiles() (dir string, files hostfs.Place, err error) {
	if l.id != "" {
		if err := l.unmountFiles(); err != nil {
			return "", hostfs.Place{}, err
		}
		upper, _ := l.ours.own()
		return upper, hostfs.Place{}, l.ours.mountDisk()
	}
	if info, err := l.root.Lstat(filesOf); err != nil || !info.IsDir() {
		return "", hostfs.Place{}, hcsd.ErrPathNotFound.WithText("layer %s has no folder %s", l.path, filesOf)
	}
	if files, err = l.files(); err != nil {
		return "", hostfs.Place{}, err
	}
	return files.Path(), files, nil
}

// unmountFiles takes away the mount that shows the files of a layer that is being imported. None is success.
func (l *layer) unmountFiles() error {
	files, err := l.files()
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer files.Close()
	return guest.Unmount(files.Path())
}
