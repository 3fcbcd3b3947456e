package volume

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/windows"
)

// hold opens a file or folder itself, not the target of a link. While the handle is open, nobody can rename or remove
// it, so nobody can put a link in its place. Others can read it meanwhile, and do what share adds to that. It reports
// whether it opened a link, and whether it opened a folder.
func hold(p string, share uint32) (h io.Closer, link, dir bool, err error) {
	name, err := windows.UTF16PtrFromString(p)
	if err != nil {
		return nil, false, false, err
	}
	const flags = windows.FILE_FLAG_BACKUP_SEMANTICS | windows.FILE_FLAG_OPEN_REPARSE_POINT
	handle, err := windows.CreateFile(name, windows.GENERIC_READ, windows.FILE_SHARE_READ|share, nil, windows.OPEN_EXISTING, flags, 0)
	if err != nil {
		return nil, false, false, &os.PathError{Op: "open", Path: p, Err: err}
	}
	f := os.NewFile(uintptr(handle), p)
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(handle, &info); err != nil {
		f.Close()
		return nil, false, false, fmt.Errorf("asking what a file is: %w", err)
	}
	link = info.FileAttributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0
	return f, link, info.FileAttributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0, nil
}
