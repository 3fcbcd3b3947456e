package platform

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows"
)

// Hold denies everybody but SYSTEM and the administrators to change a folder itself: to rename or delete it, and to
// make something in it. Otherwise somebody could put a folder of their own in the place of one whose content is
// protected (see Protect): what an administrator makes at the root of a disk may be changed by every user. What is in
// the folder, and who may read it, stays as it is. A link is held itself, and not what it leads to.
func Hold(dir string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("keeping others from changing %s: %w", dir, err)
		}
	}()
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return err
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	const flags = windows.FILE_FLAG_BACKUP_SEMANTICS | windows.FILE_FLAG_OPEN_REPARSE_POINT
	h, err := windows.CreateFile(name, windows.READ_CONTROL|windows.WRITE_DAC|windows.WRITE_OWNER, share, nil,
		windows.OPEN_EXISTING, flags, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, windows.CloseHandle(h)) }()
	now, err := windows.GetSecurityInfo(h, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return err
	}

	list, differs, err := held(now.String(), self()...)
	if err != nil {
		return err
	}
	var what windows.SECURITY_INFORMATION
	if differs {
		what = windows.DACL_SECURITY_INFORMATION | windows.PROTECTED_DACL_SECURITY_INFORMATION
	}
	if ownedByOther(now.String(), self()...) {
		list = "O:BA" + list
		what = what | windows.OWNER_SECURITY_INFORMATION
	}
	if what == 0 {
		return nil
	}
	sd, err := windows.SecurityDescriptorFromString(list)
	if err != nil {
		return err
	}
	return windows.SetKernelObjectSecurity(h, what, sd) // not SetSecurityInfo, for the reasons that protectOne names
}

// Held reports whether a folder is as Hold makes it. A folder that does not exist is fs.ErrNotExist.
func Held(dir string) (bool, error) {
	now, err := windows.GetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return false, fmt.Errorf("reading who may change %s: %w", dir, err)
	}
	_, differs, err := held(now.String(), self()...)
	return err == nil && !differs && !ownedByOther(now.String(), self()...), err
}

// self is the user who runs this program, if an administrator: Wine has no other owner of files.
func self() []string {
	token := windows.GetCurrentProcessToken()
	user, err := token.GetTokenUser()
	if err != nil || !token.IsElevated() {
		return nil
	}
	return []string{user.User.Sid.String()}
}
