package subpath

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"

	"porthole.dev/porthole/kubelet/volume/disk"
)

// heldFile is an open file or folder. While it is open, nobody can rename or remove it.
type heldFile struct {
	*os.File
	dir bool
}

// hold opens a file or folder itself, not the target of a link. Others can read it meanwhile, and do what share adds
// to that. It reports whether it opened a link.
func hold(p string, share uint32) (h *heldFile, link bool, err error) {
	name, err := windows.UTF16PtrFromString(p)
	if err != nil {
		return nil, false, err
	}
	const flags = windows.FILE_FLAG_BACKUP_SEMANTICS | windows.FILE_FLAG_OPEN_REPARSE_POINT
	handle, err := windows.CreateFile(name, windows.GENERIC_READ, windows.FILE_SHARE_READ|share, nil,
		windows.OPEN_EXISTING, flags, 0)
	if err != nil {
		return nil, false, &os.PathError{Op: "open", Path: p, Err: err}
	}
	h = &heldFile{File: os.NewFile(uintptr(handle), p)}
	attributes, err := h.attributes()
	if err != nil {
		h.Close()
		return nil, false, err
	}
	h.dir = attributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0
	return h, attributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0, nil
}

func (h *heldFile) attributes() (uint32, error) {
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(windows.Handle(h.Fd()), &info); err != nil {
		return 0, fmt.Errorf("asking what a file is: %w", err)
	}
	return info.FileAttributes, nil
}

// changed returns an error if the file or folder has become a link since it was opened: Windows lets whoever may write
// its attributes do that, while it is open too.
func (h *heldFile) changed() error {
	attributes, err := h.attributes()
	if err == nil && attributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 {
		err = errors.New("a folder or file of a sub path became a link while the container started")
	}
	return err
}

// heldChild is something that is held in a folder, to keep it there.
type heldChild windows.Handle

// Close lets it go, and removes it if keepFilled made it.
func (h heldChild) Close() error { return windows.CloseHandle(windows.Handle(h)) }

func (heldChild) changed() error { return nil }

// childrenTried is how many things of a folder keepFilled tries to hold before it makes one.
const childrenTried = 16

// keepFilled keeps a held folder from becoming a link: only an empty one can (learn.microsoft.com,
// FSCTL_SET_REPARSE_POINT: ERROR_DIR_NOT_EMPTY). It holds something that is in the folder, or else makes a hidden file
// there, which goes away with its handle.
func keepFilled(folder *heldFile, held *Holds) error {
	at := windows.Handle(folder.Fd())
	names, _ := folder.Readdirnames(childrenTried) // an error means that there is none to hold
	for _, name := range names {
		h, err := disk.OpenIn(at, name,
			disk.Opening{Access: windows.SYNCHRONIZE | windows.FILE_READ_ATTRIBUTES | windows.FILE_READ_DATA,
				Share: windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE, Disposition: windows.FILE_OPEN})
		if err == nil {
			*held = append(*held, heldChild(h))
			return nil
		}
	}

	h, err := disk.OpenIn(at, ".porthole-"+rand.Text()[:8],
		disk.Opening{Access: windows.SYNCHRONIZE | windows.DELETE, Attributes: windows.FILE_ATTRIBUTE_HIDDEN,
			Share: windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE, Disposition: windows.FILE_CREATE,
			Options: windows.FILE_DELETE_ON_CLOSE})
	if errors.Is(err, windows.ERROR_WRITE_PROTECT) { // nobody can make a link there either
		return nil
	}
	if err != nil {
		return fmt.Errorf("keeping the folder from becoming a link: %w", err)
	}
	*held = append(*held, heldChild(h))
	return nil
}
