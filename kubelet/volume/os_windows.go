package volume

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
)

const onWindows = true

const noFollow = 0 // of os.OpenFile

func isBusy(err error) bool {
	return errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED) ||
		errors.Is(err, windows.ERROR_LOCK_VIOLATION)
}

// swapLink makes ..data point to target. Windows cannot replace a link to a folder by a rename, but it can change the
// target of a link in one step (learn.microsoft.com, "Reparse Point Operations": FSCTL_SET_REPARSE_POINT modifies an
// existing reparse point of the same kind). So readers always find ..data. Upstream's kubelet removes the link and
// makes it again.
func swapLink(root *os.Root, target string) error {
	_, err := root.Readlink(dataLink)
	if err == nil {
		err = retryBusy(func() error { return retarget(root, dataLink, target) })
	}
	if err == nil {
		return nil
	}

	// There was no link, or the file system cannot change one. In the second case readers find no link for a moment.
	if err := removeIn(root, dataLink); err != nil {
		return err
	}
	return root.Symlink(target, dataLink)
}

// retarget changes the target of the link called name in root. target is a relative path.
func retarget(root *os.Root, name, target string) error {
	linkPrivilege()
	folder, err := root.Open(".")
	if err != nil {
		return err
	}
	defer folder.Close()
	link, err := openIn(windows.Handle(folder.Fd()), name,
		opening{access: windows.SYNCHRONIZE | windows.FILE_WRITE_ATTRIBUTES, disposition: windows.FILE_OPEN,
			share: windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE})
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer windows.CloseHandle(link)

	data, done := reparseData(target), uint32(0)
	if err := windows.DeviceIoControl(link, windows.FSCTL_SET_REPARSE_POINT, &data[0], uint32(len(data)), nil, 0, &done,
		nil); err != nil {
		return fmt.Errorf("changing the target of link %s to %s: %w", name, target, err)
	}
	return nil
}

// opening says how openIn opens: NtCreateFile's arguments of these names.
type opening struct{ access, attributes, share, disposition, options uint32 }

// openIn opens, or makes, what is called name in an open folder, and not the target of a link.
func openIn(folder windows.Handle, name string, o opening) (windows.Handle, error) {
	text, err := windows.NewNTUnicodeString(name)
	if err != nil {
		return 0, err
	}
	attributes := windows.OBJECT_ATTRIBUTES{RootDirectory: folder, ObjectName: text}
	attributes.Length = uint32(unsafe.Sizeof(attributes))
	const options = windows.FILE_OPEN_REPARSE_POINT | windows.FILE_OPEN_FOR_BACKUP_INTENT |
		windows.FILE_SYNCHRONOUS_IO_NONALERT

	var h windows.Handle
	var status windows.IO_STATUS_BLOCK
	err = windows.NtCreateFile(&h, o.access, &attributes, &status, nil, o.attributes, o.share, o.disposition,
		options|o.options, 0, 0)
	var nt windows.NTStatus
	if errors.As(err, &nt) {
		err = nt.Errno()
	}
	return h, err
}

// reparseData returns the REPARSE_DATA_BUFFER (ntifs.h) of a symbolic link with a relative target.
func reparseData(target string) []byte {
	const relative = 1 // SYMLINK_FLAG_RELATIVE
	name := utf16.Encode([]rune(target))
	size := uint16(2 * len(name))

	b := binary.LittleEndian.AppendUint32(nil, windows.IO_REPARSE_TAG_SYMLINK)
	b = binary.LittleEndian.AppendUint16(b, 12+size) // what follows the next two bytes
	b = binary.LittleEndian.AppendUint16(b, 0)
	// offset and size of the substitute name and of the print name: the same text
	for _, field := range []uint16{0, size, 0, size} {
		b = binary.LittleEndian.AppendUint16(b, field)
	}
	b = binary.LittleEndian.AppendUint32(b, relative)
	for _, c := range name {
		b = binary.LittleEndian.AppendUint16(b, c)
	}
	return b
}

// linkPrivilege enables the privilege to make links for this process. For administrators it is disabled at first. If
// the account lacks the privilege, it does nothing, and making a link returns an error.
var linkPrivilege = sync.OnceFunc(func() {
	var token windows.Token
	if windows.OpenProcessToken(windows.CurrentProcess(), windows.TOKEN_ADJUST_PRIVILEGES|windows.TOKEN_QUERY,
		&token) != nil {
		return
	}
	defer token.Close()
	name, err := windows.UTF16PtrFromString("SeCreateSymbolicLinkPrivilege")
	if err != nil {
		return
	}
	change := windows.Tokenprivileges{PrivilegeCount: 1}
	change.Privileges[0].Attributes = windows.SE_PRIVILEGE_ENABLED
	if windows.LookupPrivilegeValue(nil, name, &change.Privileges[0].Luid) == nil {
		_ = windows.AdjustTokenPrivileges(token, false, &change, 0, nil, nil)
	}
})
