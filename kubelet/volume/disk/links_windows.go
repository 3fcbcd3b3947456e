package disk

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

// Retarget changes the target of the link called name in root. target is a relative path.
func Retarget(root *os.Root, name, target string) error {
	linkPrivilege()
	folder, err := root.Open(".")
	if err != nil {
		return err
	}
	defer folder.Close()
	link, err := OpenIn(windows.Handle(folder.Fd()), name,
		Opening{Access: windows.SYNCHRONIZE | windows.FILE_WRITE_ATTRIBUTES, Disposition: windows.FILE_OPEN,
			Share: windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE})
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer windows.CloseHandle(link)

	data, done := ReparseData(target), uint32(0)
	if err := windows.DeviceIoControl(link, windows.FSCTL_SET_REPARSE_POINT, &data[0], uint32(len(data)), nil, 0, &done,
		nil); err != nil {
		return fmt.Errorf("changing the target of link %s to %s: %w", name, target, err)
	}
	return nil
}

// Opening says how OpenIn opens: NtCreateFile's arguments of these names.
type Opening struct{ Access, Attributes, Share, Disposition, Options uint32 }

// OpenIn opens, or makes, what is called name in an open folder, and not the target of a link.
func OpenIn(folder windows.Handle, name string, o Opening) (windows.Handle, error) {
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
	err = windows.NtCreateFile(&h, o.Access, &attributes, &status, nil, o.Attributes, o.Share, o.Disposition,
		options|o.Options, 0, 0)
	var nt windows.NTStatus
	if errors.As(err, &nt) {
		err = nt.Errno()
	}
	return h, err
}

// ReparseData returns the REPARSE_DATA_BUFFER (ntifs.h) of a symbolic link with a relative target.
func ReparseData(target string) []byte {
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
