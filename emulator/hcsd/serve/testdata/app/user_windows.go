package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// describeUser prints what the program's token says of its user, in a line: the SID, whether it is a member of
// Administrators for CheckTokenMembership, whether that group is in its list, whether it is elevated, of which kind,
// and its level.
func describeUser() error {
	administrators, err := windows.CreateWellKnownSid(windows.WinBuiltinAdministratorsSid)
	if err != nil {
		return err
	}
	var mine windows.Token
	if err := windows.OpenProcessToken(windows.CurrentProcess(), windows.TOKEN_QUERY, &mine); err != nil {
		return err
	}
	defer mine.Close()
	user, err := mine.GetTokenUser()
	if err != nil {
		return err
	}
	member, err := windows.Token(0).IsMember(administrators) // pgwin32_is_admin of PostgreSQL asks so
	if err != nil {
		return err
	}
	groups, err := mine.GetTokenGroups()
	if err != nil {
		return err
	}
	listed := false
	for _, g := range groups.AllGroups() {
		listed = listed || g.Sid.Equals(administrators)
	}

	var kind, size uint32
	if err := windows.GetTokenInformation(mine, windows.TokenElevationType, (*byte)(unsafe.Pointer(&kind)), 4,
		&size); err != nil {
		return err
	}
	var label struct {
		windows.Tokenmandatorylabel
		sid [68]byte
	}
	if err := windows.GetTokenInformation(mine, windows.TokenIntegrityLevel, (*byte)(unsafe.Pointer(&label)),
		uint32(unsafe.Sizeof(label)), &size); err != nil {
		return err
	}
	fmt.Println(user.User.Sid, member, listed, mine.IsElevated(), kind, label.Label.Sid)
	return nil
}

// describeRestricted runs the program with a token that has been made of its own and has fewer privileges, as
// initdb.exe of PostgreSQL does, and prints what that says of its user.
func describeRestricted() error {
	var mine, less windows.Token
	if err := windows.OpenProcessToken(windows.CurrentProcess(), windows.TOKEN_ALL_ACCESS, &mine); err != nil {
		return err
	}
	defer mine.Close()
	const disableMaxPrivilege = 1 // DISABLE_MAX_PRIVILEGE (winnt.h)
	restrict := windows.NewLazySystemDLL("advapi32.dll").NewProc("CreateRestrictedToken")
	if ok, _, err := restrict.Call(uintptr(mine), disableMaxPrivilege, 0, 0, 0, 0, 0, 0,
		uintptr(unsafe.Pointer(&less))); ok == 0 {
		return err
	}
	defer less.Close()
	cmd := exec.Command(os.Args[0], "user")
	cmd.SysProcAttr = &syscall.SysProcAttr{Token: syscall.Token(less)}
	out, err := cmd.CombinedOutput()
	fmt.Print(string(out))
	return err
}

// describeFile prints the attributes of a file in each way in which Windows tells them, and what it says to who wants
// to know where a link leads.
func describeFile(path string) error {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	plain, err := windows.GetFileAttributes(name)
	if err != nil {
		return err
	}
	var full windows.Win32FileAttributeData
	if err := windows.GetFileAttributesEx(name, windows.GetFileExInfoStandard,
		(*byte)(unsafe.Pointer(&full))); err != nil {
		return err
	}
	var found windows.Win32finddata
	search, err := windows.FindFirstFile(name, &found)
	if err != nil {
		return err
	}
	if err := windows.FindClose(search); err != nil {
		return err
	}

	h, err := windows.CreateFile(name, windows.FILE_READ_ATTRIBUTES, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE,
		nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &info); err != nil {
		return err
	}
	var tag struct{ attributes, tag uint32 }
	if err := windows.GetFileInformationByHandleEx(h, windows.FileAttributeTagInfo, (*byte)(unsafe.Pointer(&tag)),
		uint32(unsafe.Sizeof(tag))); err != nil {
		return err
	}
	data, size := make([]byte, windows.MAXIMUM_REPARSE_DATA_BUFFER_SIZE), uint32(0)
	err = windows.DeviceIoControl(h, windows.FSCTL_GET_REPARSE_POINT, nil, 0, &data[0], uint32(len(data)), &size, nil)
	fmt.Printf("%#x %#x %#x %#x %#x %#x %t\n", plain, full.FileAttributes, found.FileAttributes, info.FileAttributes,
		tag.attributes,
		tag.tag, err == nil)
	return nil
}
