package platform

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows"
)

// fileAllAccess is FILE_ALL_ACCESS (winnt.h).
const fileAllAccess = 0x1f01ff

// Protect takes a folder, and what is made in it from now on, from everybody but SYSTEM, the administrators and the folder's
// owner. Without it a folder has what the root of the disk hands down: every user may read, every authenticated one write
// (CVE-2024-5321, where upstream's kubelet began to do the same).
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

	// Not SetSecurityInfo, which Wine 8.0 has add what the folder above hands down even where that is not wanted.
	return windows.SetKernelObjectSecurity(h, windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, list)
}

// onlyFor is a description whose access list lets in the owner, SYSTEM and the administrators, and takes nothing over from above.
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
