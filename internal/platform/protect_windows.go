package platform

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

// fileAllAccess is FILE_ALL_ACCESS (winnt.h).
const fileAllAccess = 0x1f01ff

// Protect denies everybody but SYSTEM, the administrators and the owner access to a folder, to what is in it, and to what is made in
// it from now on. Otherwise a folder inherits from the root of the disk, where every user may read and every authenticated user may
// write. Upstream's kubelet does the same since CVE-2024-5321, for new folders. Files and folders below get a new access control list
// only if their present one lets others in, as after an earlier version of this program, which did not protect its folders. Links are
// left alone: their targets have lists of their own. A file that is removed meanwhile is no error.
func Protect(dir string) error {
	if err := protectOne(dir, true); err != nil {
		return fmt.Errorf("keeping others out of %s: %w", dir, err)
	}

	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if path != dir && err == nil && entry.Type()&fs.ModeSymlink == 0 {
			err = protectOne(path, false)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keeping others out of %s: %w", path, err)
		}
		return nil
	})
}

// Protected reports whether a folder keeps everybody out but SYSTEM, the administrators and the owner. What is made in such a folder
// inherits that. A folder that does not exist is fs.ErrNotExist.
func Protected(dir string) (closed bool, err error) {
	others, err := open(dir)
	if err != nil {
		return false, fmt.Errorf("reading who has access to %s: %w", dir, err)
	}
	return !others, nil
}

// open reports whether a file or folder lets others in.
func open(path string) (bool, error) {
	now, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return false, err
	}
	owner, _, err := now.Owner()
	if err != nil {
		return false, err
	}
	return letsOthersIn(now, owner)
}

// protectOne gives a file or folder the access control list of Protect: always, or only if its present list lets others in.
func protectOne(path string, always bool) (err error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	const flags = windows.FILE_FLAG_BACKUP_SEMANTICS | windows.FILE_FLAG_OPEN_REPARSE_POINT
	h, err := windows.CreateFile(name, windows.READ_CONTROL|windows.WRITE_DAC, share, nil, windows.OPEN_EXISTING, flags, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, windows.CloseHandle(h)) }()
	now, err := windows.GetSecurityInfo(h, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return err
	}

	owner, _, err := now.Owner()
	if err != nil {
		return err
	}
	if !always {
		if others, err := letsOthersIn(now, owner); err != nil || !others {
			return err
		}
	}
	list, err := onlyFor(owner)
	if err != nil {
		return err
	}

	// Not SetSecurityInfo: Wine 8.0 adds the inherited entries even if the descriptor forbids it. It would also keep entries of children
	// that they did not inherit.
	return windows.SetKernelObjectSecurity(h, windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, list)
}

// letsOthersIn reports whether an access control list allows anything to somebody other than the owner, SYSTEM and the administrators.
// Without a list everybody may do everything.
func letsOthersIn(sd *windows.SECURITY_DESCRIPTOR, owner *windows.SID) (bool, error) {
	list, _, err := sd.DACL()
	switch {
	case errors.Is(err, windows.ERROR_OBJECT_NOT_FOUND), err == nil && list == nil:
		return true, nil
	case err != nil:
		return false, err
	}
	for i := range uint32(list.AceCount) {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(list, i, &ace); err != nil {
			return false, err
		}
		if ace.Header.AceType == windows.ACCESS_DENIED_ACE_TYPE {
			continue
		}
		sid := (*windows.SID)(unsafe.Pointer(&ace.SidStart))
		if !sid.Equals(owner) && !sid.IsWellKnown(windows.WinLocalSystemSid) && !sid.IsWellKnown(windows.WinBuiltinAdministratorsSid) {
			return true, nil
		}
	}
	return false, nil
}

// onlyFor returns a security descriptor that lets in the owner, SYSTEM and the administrators, and inherits nothing.
func onlyFor(owner *windows.SID) (*windows.SECURITY_DESCRIPTOR, error) {
	who := []*windows.SID{owner}
	for _, kind := range []windows.WELL_KNOWN_SID_TYPE{windows.WinLocalSystemSid, windows.WinBuiltinAdministratorsSid} {
		sid, err := windows.CreateWellKnownSid(kind)
		if err != nil {
			return nil, err
		}
		who = append(who, sid)
	}

	var entries []windows.EXPLICIT_ACCESS
	for _, sid := range who {
		entries = append(entries, windows.EXPLICIT_ACCESS{
			AccessPermissions: fileAllAccess, AccessMode: windows.GRANT_ACCESS, Inheritance: windows.SUB_CONTAINERS_AND_OBJECTS_INHERIT,
			Trustee: windows.TRUSTEE{TrusteeForm: windows.TRUSTEE_IS_SID, TrusteeValue: windows.TrusteeValueFromSID(sid)},
		})
	}

	list, err := windows.ACLFromEntries(entries, nil)
	if err != nil {
		return nil, err
	}
	out, err := windows.NewSecurityDescriptor()
	if err != nil {
		return nil, err
	}

	return out, errors.Join(out.SetDACL(list, true, false), out.SetControl(windows.SE_DACL_PROTECTED, windows.SE_DACL_PROTECTED))
}
