package platform

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows"
)

// fileAllAccess is FILE_ALL_ACCESS (winnt.h).
const fileAllAccess = 0x1f01ff

// Protect denies everybody but SYSTEM, the administrators and the folder's owner access to a folder, and to what is made in it from
// now on. Otherwise a folder inherits from the root of the disk, where every user may read and every authenticated user may write.
// Upstream's kubelet does the same since CVE-2024-5321.
func Protect(dir string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("keeping others out of %s: %w", dir, err)
		}
	}()
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return err
	}

	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := windows.CreateFile(name, windows.READ_CONTROL|windows.WRITE_DAC, share, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, windows.CloseHandle(h)) }()
	now, err := windows.GetSecurityInfo(h, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return err
	}

	owner, _, err := now.Owner()
	if err != nil {
		return err
	}
	list, err := onlyFor(owner)
	if err != nil {
		return err
	}

	// Not SetSecurityInfo: Wine 8.0 adds the inherited entries even if the descriptor says not to.
	return windows.SetKernelObjectSecurity(h, windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, list)
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
