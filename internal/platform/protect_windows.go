package platform

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// fileAllAccess is FILE_ALL_ACCESS (winnt.h).
const fileAllAccess = 0x1f01ff

// Protect denies everybody but SYSTEM, the administrators and the account of this program access to a folder or file,
// to what is in it, and to what is made in it from now on. Otherwise a folder inherits from the root of the disk,
// where every user may read and every authenticated user may write. Upstream's kubelet does the same since
// CVE-2024-5321, for new folders. Files and folders below get a new access control list only if their present one lets
// others in, as after an earlier version of this program, which did not protect its folders. Links are left alone:
// their targets have lists of their own. A file that is removed meanwhile is no error.
//
// Whoever owns a folder may always change its list. So a folder that somebody else made before is made anew if it is
// empty. If it is not, or a folder above it is somebody else's, Protect refuses: what is in it may have been put there
// to be run or read. What others own below becomes the administrators'.
func Protect(dir string) error {
	if err := ownFolder(dir); err != nil {
		return fmt.Errorf("keeping others out of %s: %w", dir, err)
	}
	adopt(dir) // first: the list has the owner in it
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

// foreign is the text about what belongs to somebody who is no administrator: why it is refused, and what helps.
func foreign(path, owner string) string {
	return fmt.Sprintf(
		"%s belongs to %s, who is no administrator and can change what is in it at any time: look at it, then remove it, or give it to the administrators (takeown /a /r /d y /f %q)", path, owner, path)
}

// ownFolder sees to it that a folder and those above it belong to nobody but SYSTEM, the administrators or the account
// of this program.
func ownFolder(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) { // the root of the disk is the system's
		owner, err := strangerOf(at)
		if err != nil {
			return err
		}
		if owner == "" {
			continue
		}
		if info, err := os.Lstat(at); at == dir && err == nil && info.IsDir() && os.Remove(dir) == nil { // it was empty
			// an error if somebody makes it again at once, or has it still open
			if err := os.Mkdir(dir, 0o755); err != nil {
				return fmt.Errorf("making a folder anew that belonged to %s: %w", owner, err)
			}
			continue
		}
		return errors.New(foreign(at, owner))
	}
	return nil
}

// strangerOf returns the owner of a file or folder, "" if it is one that is trusted.
func strangerOf(path string) (string, error) {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return "", err
	}
	owner, _, err := sd.Owner()
	if err != nil || mayOwn(owner) {
		return "", err
	}
	if account, domain, _, err := owner.LookupAccount(""); err == nil && account != "" {
		return domain + `\` + account, nil
	}
	return owner.String(), nil
}

// mayOwn reports whether an account may own a protected folder: one of trusted, or that of this program.
func mayOwn(owner *windows.SID) bool {
	own, err := ownAccount()
	return slices.Contains(trusted, owner.String()) || err == nil && owner.Equals(own)
}

// ownAccount returns the account of this program.
var ownAccount = sync.OnceValues(func() (*windows.SID, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, err
	}
	return user.User.Sid, nil
})

// Protected reports whether a folder belongs to SYSTEM, the administrators or the account of this program, and keeps
// everybody else out. What is made in such a folder inherits that. A folder that does not exist is fs.ErrNotExist.
func Protected(dir string) (closed bool, err error) {
	others, err := open(dir)
	if err != nil {
		return false, fmt.Errorf("reading who has access to %s: %w", dir, err)
	}
	return !others, nil
}

// open reports whether a file or folder lets others in, or belongs to somebody else.
func open(path string) (bool, error) {
	now, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return false, err
	}
	owner, _, err := now.Owner()
	if err != nil {
		return false, err
	}
	if !mayOwn(owner) {
		return true, nil
	}
	return letsOthersIn(now, owner)
}

// protectOne gives a file or folder the access control list of Protect: always, or only if its present list lets
// others in. What belongs to somebody else becomes the administrators'.
func protectOne(path string, always bool) (err error) {
	stranger, err := strangerOf(path)
	if err != nil {
		return err
	}
	access := uint32(windows.READ_CONTROL | windows.WRITE_DAC)
	if stranger != "" {
		ownerPrivileges()
		access |= windows.WRITE_OWNER
	}
	h, err := openForSecurity(path, access)
	if err != nil && stranger != "" {
		return errors.Join(errors.New(foreign(path, stranger)), err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, windows.CloseHandle(h)) }()
	now, err := windows.GetSecurityInfo(h, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return err
	}

	owner, _, err := now.Owner()
	if err != nil {
		return err
	}
	if !mayOwn(owner) {
		if owner, err = giveToAdministrators(h); err != nil {
			return errors.Join(errors.New(foreign(path, stranger)), err)
		}
		always = true
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

	// Not SetSecurityInfo: Wine 8.0 adds the inherited entries even if the descriptor forbids it. It would also keep
	// entries of children that they did not inherit.
	return windows.SetKernelObjectSecurity(h,
		windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, list)
}

// openForSecurity opens a file or folder itself, not the target of a link.
func openForSecurity(path string, access uint32) (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	const flags = windows.FILE_FLAG_BACKUP_SEMANTICS | windows.FILE_FLAG_OPEN_REPARSE_POINT
	return windows.CreateFile(name, access, share, nil, windows.OPEN_EXISTING, flags, 0)
}

// giveToAdministrators makes the administrators the owner of what is open.
func giveToAdministrators(h windows.Handle) (*windows.SID, error) {
	admins, err := windows.CreateWellKnownSid(windows.WinBuiltinAdministratorsSid)
	if err != nil {
		return nil, err
	}
	sd, err := windows.NewSecurityDescriptor()
	if err != nil {
		return nil, err
	}
	if err := sd.SetOwner(admins, false); err != nil {
		return nil, err
	}
	return admins, windows.SetKernelObjectSecurity(h, windows.OWNER_SECURITY_INFORMATION, sd)
}

// adopt gives a folder to the administrators if it belongs to the account of this program, so that programs of other
// accounts trust it: join is run by an administrator, the node's programs by SYSTEM. Windows usually makes the
// administrators the owner at once; where it does not let this program do that, the folder stays as it is.
func adopt(dir string) {
	h, err := openForSecurity(dir, windows.READ_CONTROL|windows.WRITE_OWNER)
	if err != nil {
		return
	}
	defer windows.CloseHandle(h)
	if sd, err := windows.GetSecurityInfo(h, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION); err == nil {
		if owner, _, err := sd.Owner(); err == nil && !owner.IsWellKnown(windows.WinLocalSystemSid) &&
			!owner.IsWellKnown(windows.WinBuiltinAdministratorsSid) {
			_, _ = giveToAdministrators(h)
		}
	}
}

// ownerPrivileges enables the privileges to take and give what belongs to others, if this account has them:
// administrators do, disabled at first.
var ownerPrivileges = sync.OnceFunc(func() {
	var token windows.Token
	if windows.OpenProcessToken(windows.CurrentProcess(), windows.TOKEN_ADJUST_PRIVILEGES|windows.TOKEN_QUERY,
		&token) != nil {
		return
	}
	defer token.Close()
	for _, text := range []string{"SeTakeOwnershipPrivilege", "SeRestorePrivilege"} {
		name, err := windows.UTF16PtrFromString(text)
		if err != nil {
			continue
		}
		change := windows.Tokenprivileges{PrivilegeCount: 1}
		change.Privileges[0].Attributes = windows.SE_PRIVILEGE_ENABLED
		if windows.LookupPrivilegeValue(nil, name, &change.Privileges[0].Luid) == nil {
			_ = windows.AdjustTokenPrivileges(token, false, &change, 0, nil, nil)
		}
	}
})

// letsOthersIn reports whether an access control list allows anything to somebody other than the owner and those who
// may be it. Without a list everybody may do everything.
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
		if !sid.Equals(owner) && !mayOwn(sid) { // Wine lists the account of this program whoever is the owner
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
			AccessPermissions: fileAllAccess, AccessMode: windows.GRANT_ACCESS,
			Inheritance: windows.SUB_CONTAINERS_AND_OBJECTS_INHERIT,
			Trustee: windows.TRUSTEE{TrusteeForm: windows.TRUSTEE_IS_SID,
				TrusteeValue: windows.TrusteeValueFromSID(sid)},
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

	return out, errors.Join(out.SetDACL(list, true, false),
		out.SetControl(windows.SE_DACL_PROTECTED, windows.SE_DACL_PROTECTED))
}
