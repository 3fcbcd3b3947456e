package logs

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"porthole.dev/porthole/internal/beneath"
)

// depth is how many elements of the path of a log are below the folder of logs:
// <ns>_<name>_<uid>/<container>/<attempt>.log.
const depth = 3

// split returns the folder of all logs and the elements of the path below it. A container that has a folder of logs
// mounted can replace these elements, so they are never followed as links.
func split(path string) (root string, elements []string) {
	root = path
	for range depth {
		elements = append([]string{filepath.Base(root)}, elements...)
		root = filepath.Dir(root)
	}
	return root, elements
}

// Open opens the log of a container for reading. It refuses a link, at the log itself and at the two folders above it,
// and everything that is not a regular file. Others can rename and remove the file while it is open.
func Open(path string) (*os.File, error) {
	root, elements := split(path)
	return beneath.File(root, elements...)
}

// folder opens the folder of a log and returns the log's name in it.
func folder(path string) (dir *os.Root, name string, err error) {
	root, elements := split(path)
	dir, err = beneath.Folder(root, elements[:depth-1]...)
	return dir, elements[depth-1], err
}

// Until returns a reader that fails when ctx has ended. Containers make logs as long as they like: a file of terabytes
// takes no place while nothing is written to it.
func Until(ctx context.Context, r io.Reader) io.Reader { return bound{ctx, r} }

type bound struct {
	ctx context.Context
	io.Reader
}

func (b bound) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.Reader.Read(p)
}
